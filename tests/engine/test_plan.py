"""Planning of slots: run, skipped or missed, by the policies of the job; no database needed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schedules.engine.gaps import COUNTED_SLOTS, Slot
from schedules.engine.interruptions import BUSY, NO_CLUSTER
from schedules.engine.plan import HELD_RUNS, Plan, apply_overlap, plan
from schedules.models import Execution, Job
from tests.engine.conftest import NOW

Status = Execution.Status

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def new_job(**fields: Any) -> Job:
    first = fields.pop("first", NOW)
    kind = {"trigger_type": "cron", "cron": "0 * * * *"}
    if "every" in fields:
        kind = {"trigger_type": "interval", "anchor_at": first}
    elif "run_at" in fields:
        kind = {"trigger_type": "once"}
        first = fields["run_at"]
    return Job(**kind | {"next_run_at": first, "created_at": first} | fields)


def planned(
    job: Job,
    now: datetime,
    *,
    live: int = 0,
    active: bool = True,
    why_missed: str = NO_CLUSTER,
    recorded: Sequence[tuple[datetime, datetime | None]] = (),
) -> tuple[Plan, list[tuple[str, datetime]]]:
    result = plan(
        job, now, live=live, owner_is_active=active, why_missed=lambda moment: why_missed, recorded=recorded
    )
    return result, [(slot.status.value, slot.at) for slot in result.slots]


def test_slot_on_time_is_run_and_the_next_slot_is_set():
    result, rows = planned(new_job(), NOW)

    assert rows == [("claimed", NOW)]
    assert result.next_run_at == NOW + HOUR
    assert result.is_plain


@pytest.mark.parametrize("late", [timedelta(0), SECOND, timedelta(seconds=60)])
def test_slot_less_than_a_minute_late_is_on_time_for_every_catch_up_policy(late):
    for catch_up in Job.CatchUp:
        result, rows = planned(new_job(catch_up=catch_up), NOW + late)

        assert rows == [("claimed", NOW)]
        assert result.slots[0].cause == Execution.Cause.SCHEDULE


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("once", ("claimed", Execution.Cause.CATCH_UP)),
        ("all", ("claimed", Execution.Cause.CATCH_UP)),
        ("none", ("missed", Execution.Cause.SCHEDULE)),
    ],
)
def test_single_late_slot_follows_the_catch_up_policy(catch_up, expected):
    result, _ = planned(new_job(catch_up=catch_up), NOW + 2 * MINUTE)

    (slot,) = result.slots
    assert (slot.status.value, slot.cause) == expected
    assert not result.is_plain


@pytest.mark.parametrize(
    ("trigger", "slots"),
    [
        pytest.param({"cron": "0 * * * *"}, 25, id="hourly"),
        pytest.param({"cron": "* * * * *"}, 1441, id="minutely"),
        pytest.param({"every": timedelta(minutes=7)}, 206, id="interval"),
        pytest.param({"every": timedelta(seconds=1)}, 86_401, id="every second"),
    ],
)
@pytest.mark.parametrize(("catch_up", "runs"), [("once", 1), ("all", 100), ("none", 1)])
def test_every_slot_of_a_day_without_clusters_is_accounted_for(trigger, slots, catch_up, runs):
    now = NOW + DAY
    job = new_job(**trigger, catch_up=catch_up, overlap="allow")

    result, _ = planned(job, now)

    chosen = [slot for slot in result.slots if slot.status == Status.CLAIMED]
    missed = [slot for slot in result.slots if slot.status == Status.MISSED]
    runs = min(runs, slots)
    if catch_up == "none" and job.every == timedelta(minutes=7):
        runs = 0  # The newest slot was more than a minute ago.
    assert len(chosen) == runs
    assert len(missed) == (slots > runs)
    assert sum(slot.count for slot in result.slots) == slots
    if missed:
        assert missed[0].at == NOW
        assert missed[0].reason == "No worker was running."
        assert missed[0].last == (_before(job, chosen[0].at) if chosen else _before(job, now + SECOND))
    assert result.next_run_at == job.trigger.next_after(now)


def _before(job: Job, moment: datetime) -> datetime | None:
    return job.trigger.latest_at_or_before(moment - timedelta(microseconds=1), NOW)


def test_gap_says_when_clusters_were_alive_but_busy():
    result, _ = planned(new_job(), NOW + 3 * HOUR, why_missed=BUSY)

    assert result.slots[0].reason == BUSY


@pytest.mark.parametrize("catch_up", ["once", "all"])
def test_slots_older_than_the_window_are_missed(settings, catch_up):
    settings.CRONTY_CATCH_UP_HOURS = 2
    job = new_job(cron="0 9 * * *", catch_up=catch_up)

    result, rows = planned(job, NOW + DAY + 3 * HOUR)

    assert rows == [("missed", NOW)]
    assert (result.slots[0].last, result.slots[0].count) == (NOW + DAY, 2)


def test_catch_up_all_respects_the_window_and_the_limit(settings):
    settings.CRONTY_CATCH_UP_HOURS, settings.CRONTY_CATCH_UP_RUNS = 5, 3
    job = new_job(catch_up="all", overlap="allow")

    _, capped = planned(job, NOW + 10 * HOUR)
    settings.CRONTY_CATCH_UP_RUNS = 100
    _, windowed = planned(job, NOW + 10 * HOUR)

    assert capped == [("missed", NOW), *(("claimed", NOW + hours * HOUR) for hours in (8, 9, 10))]
    assert windowed == [("missed", NOW), *(("claimed", NOW + hours * HOUR) for hours in range(5, 11))]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("allow", ["claimed", "claimed", "claimed"]),
        ("queue", ["claimed", "queued", "queued"]),
        # Catch-up runs wait for each other; a slot on time does not wait.
        ("skip", ["claimed", "queued", "skipped"]),
    ],
)
def test_catch_up_runs_wait_for_each_other_unless_overlap_is_allowed(overlap, expected):
    _, rows = planned(new_job(catch_up="all", overlap=overlap), NOW + 2 * HOUR)

    assert [status for status, _ in rows] == expected


@pytest.mark.parametrize(
    ("max_runs", "done", "expected", "goes_on"),
    [
        (None, 50, 5, True),
        (10, 0, 5, True),
        (5, 0, 5, False),
        (3, 0, 3, False),
        (3, 2, 1, False),
        (3, 3, 0, False),
        (3, 9, 0, False),
    ],
)
def test_max_runs_limits_catch_up_runs_and_ends_the_job(max_runs, done, expected, goes_on):
    job = new_job(catch_up="all", overlap="allow", max_runs=max_runs, slot_count=done)

    result, rows = planned(job, NOW + 4 * HOUR)

    assert rows == [("claimed", NOW + hours * HOUR) for hours in range(expected)]
    assert bool(result.next_run_at) is goes_on


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_slot_that_already_has_a_row_neither_delays_others_nor_counts_as_a_run(overlap):
    job = new_job(catch_up="all", overlap=overlap, max_runs=2, slot_count=1)

    result, rows = planned(job, NOW + HOUR + 2 * MINUTE, recorded=[(NOW, None)])

    assert rows == [("claimed", NOW + HOUR)]
    assert result.next_run_at is None


def test_gap_of_missed_slots_leaves_out_slots_that_already_have_a_row():
    result, rows = planned(new_job(), NOW + 4 * HOUR, recorded=[(NOW + HOUR, NOW + 2 * HOUR)])

    assert rows == [("missed", NOW), ("missed", NOW + 3 * HOUR), ("claimed", NOW + 4 * HOUR)]
    assert [slot.count for slot in result.slots] == [1, 1, 1]


def test_skipped_slots_do_not_count_as_runs():
    result, rows = planned(new_job(max_runs=1), NOW, live=1)

    assert rows == [("skipped", NOW)]
    assert result.next_run_at == NOW + HOUR


@pytest.mark.parametrize(
    ("ends_at", "expected", "following"),
    [
        (NOW, [NOW], None),
        (NOW + HOUR, [NOW, NOW + HOUR], None),
        (NOW + 90 * MINUTE, [NOW, NOW + HOUR], None),
        (NOW + 3 * HOUR, [NOW, NOW + HOUR, NOW + 2 * HOUR], NOW + 3 * HOUR),
        (NOW - HOUR, [NOW], None),
    ],
)
def test_no_slot_is_planned_after_ends_at(ends_at, expected, following):
    result, rows = planned(new_job(catch_up="all", overlap="allow", ends_at=ends_at), NOW + 2 * HOUR)

    assert rows == [("claimed", at) for at in expected]
    assert result.next_run_at == following


@pytest.mark.parametrize(
    ("late", "catch_up", "expected"),
    [
        (timedelta(0), "none", "claimed"),
        (HOUR, "once", "claimed"),
        (HOUR, "none", "missed"),
        (25 * HOUR, "once", "missed"),
        (25 * HOUR, "all", "missed"),
    ],
)
def test_one_time_job_has_one_slot_and_no_next(late, catch_up, expected):
    result, rows = planned(new_job(run_at=NOW, catch_up=catch_up), NOW + late)

    assert rows == [(expected, NOW)]
    assert result.next_run_at is None


def test_due_slots_of_an_inactive_owner_become_one_row():
    result, rows = planned(new_job(), NOW + 3 * HOUR, active=False)

    assert rows == [("skipped", NOW)]
    assert (result.slots[0].count, result.slots[0].last) == (4, NOW + 3 * HOUR)
    assert result.next_run_at == NOW + 4 * HOUR


def test_interval_keeps_its_grid_even_when_late():
    job = new_job(every=timedelta(minutes=10), catch_up="none")

    result, _ = planned(job, NOW + timedelta(minutes=25, seconds=3))

    assert result.next_run_at == NOW + 30 * MINUTE


def test_next_run_at_that_the_trigger_no_longer_produces_still_gets_a_row():
    """For example after a change of time zone rules: next_run_at was computed with the old ones."""
    job = new_job(first=NOW + 20 * MINUTE)

    result, rows = planned(job, NOW + HOUR)

    assert rows == [("missed", NOW + 20 * MINUTE), ("claimed", NOW + HOUR)]
    assert not result.is_plain


def _utc(*numbers: int) -> datetime:
    return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("cron", "first", "now", "slots"),
    [
        # 29 March 2026: 02:00 to 03:00 does not exist in Berlin.
        pytest.param("30 2 * * *", _utc(2026, 3, 28, 1, 30), _utc(2026, 3, 30, 0, 30), 3, id="skipped time"),
        pytest.param("0 * * * *", _utc(2026, 3, 28, 23, 0), _utc(2026, 3, 29, 3, 0), 5, id="hourly"),
        # 25 October 2026: 02:00 to 03:00 occurs twice in Berlin.
        pytest.param("30 2 * * *", _utc(2026, 10, 25, 0, 30), _utc(2026, 10, 25, 12, 0), 1, id="fixed twice"),
        pytest.param(
            "30 * * * *", _utc(2026, 10, 25, 0, 30), _utc(2026, 10, 25, 2, 30), 3, id="hourly twice"
        ),
    ],
)
def test_each_slot_is_planned_once_in_the_night_of_a_clock_change(cron, first, now, slots):
    job = new_job(
        cron=cron,
        timezone="Europe/Berlin",
        first=first,
        catch_up="all",
        overlap="allow",
    )

    result, rows = planned(job, now)

    moments = [at for _, at in rows]
    assert sum(slot.count for slot in result.slots) == slots
    assert moments == sorted(set(moments))
    assert result.next_run_at is not None
    assert result.next_run_at > now


def test_count_of_a_cron_gap_is_bounded():
    result, _ = planned(new_job(cron="* * * * *"), NOW + 30 * DAY)

    assert result.slots[0].count == COUNTED_SLOTS + 1


def entry(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def test_slot_that_is_left_out_is_skipped_and_does_not_count():
    result, rows = planned(new_job(skips=entry(NOW), max_runs=1), NOW)

    assert rows == [("skipped", NOW)]
    assert result.slots[0].reason == "This run was skipped."
    assert result.next_run_at == NOW + HOUR


def test_every_slot_of_a_day_that_is_left_out_is_skipped():
    day = NOW.date().isoformat()

    result, rows = planned(new_job(skips=day), NOW + 2 * HOUR)

    assert rows == [("skipped", NOW)]
    assert (result.slots[0].count, result.slots[0].last) == (3, NOW + 2 * HOUR)
    assert result.slots[0].reason == f"{day} is skipped in this schedule."


def test_run_before_those_that_are_left_out_is_made_up_for():
    job = new_job(skips=entry(NOW + 2 * HOUR), catch_up="once")

    _, rows = planned(job, NOW + 2 * HOUR)

    assert rows == [("missed", NOW), ("skipped", NOW + 2 * HOUR), ("claimed", NOW + HOUR)]


def test_catching_up_on_all_runs_leaves_out_the_skipped_ones():
    job = new_job(skips=entry(NOW + HOUR), catch_up="all", overlap="allow")

    _, rows = planned(job, NOW + 2 * HOUR)

    assert sorted(rows, key=lambda row: row[1]) == [
        ("claimed", NOW),
        ("skipped", NOW + HOUR),
        ("claimed", NOW + 2 * HOUR),
    ]


# Overlap


def decide(live: int, *, late: timedelta = timedelta(), **fields: str) -> Slot:
    """Apply the overlap policy of a job with these fields to one slot."""
    job = Job(**{"trigger_type": "cron"} | fields)
    [slot] = apply_overlap(job, [Slot(NOW, Status.CLAIMED)], live, NOW + late)
    return slot


@pytest.mark.parametrize(
    ("overlap", "live", "expected"),
    [
        ("skip", 0, "claimed"),
        ("skip", 1, "skipped"),
        ("queue", 0, "claimed"),
        ("queue", 1, "queued"),
        ("queue", HELD_RUNS, "queued"),
        ("queue", HELD_RUNS + 1, "skipped"),
        ("allow", 0, "claimed"),
        ("allow", 500, "claimed"),
    ],
)
def test_overlap_policy_decides_a_slot_while_runs_are_live(overlap, live, expected):
    slot = decide(live, overlap=overlap)

    assert (slot.status, slot.at) == (expected, NOW)
    assert bool(slot.reason) == (expected != "claimed")


def test_slots_of_one_plan_wait_in_line_up_to_the_limit():
    slots = [Slot(NOW + number * MINUTE, Status.CLAIMED) for number in range(HELD_RUNS + 3)]

    decided = apply_overlap(Job(trigger_type="cron", overlap="queue"), slots, 0, NOW)

    statuses = [slot.status for slot in decided]
    assert statuses == [Status.CLAIMED, *[Status.QUEUED] * HELD_RUNS, *[Status.SKIPPED] * 2]


def test_one_time_job_runs_while_a_manual_run_is_live():
    assert decide(1, trigger_type="once", overlap="skip").status == Status.CLAIMED


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (timedelta(seconds=5), "The previous run was still running."),
        (timedelta(seconds=6), "The previous run had not been stored yet."),
    ],
)
def test_reason_of_a_skipped_slot_depends_on_how_late_it_is(late, reason):
    assert decide(1, overlap="skip", late=late).reason == reason


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("allow", ["claimed", "claimed", "claimed"]),
        ("queue", ["claimed", "queued", "queued"]),
        # Catch-up runs wait for the previous run; a slot on time is skipped.
        ("skip", ["claimed", "queued", "skipped"]),
    ],
)
def test_catch_up_runs_wait_for_the_previous_run_and_slots_on_time_are_skipped(overlap, expected):
    job = Job(trigger_type="cron", overlap=overlap)
    causes = [Execution.Cause.CATCH_UP, Execution.Cause.CATCH_UP, Execution.Cause.SCHEDULE]

    slots = apply_overlap(job, [Slot(NOW, Status.CLAIMED, cause) for cause in causes], 0, NOW)

    assert [slot.status.value for slot in slots] == expected
