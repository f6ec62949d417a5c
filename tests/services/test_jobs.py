"""The verbs on jobs: who may, in which state, with which values, and what they leave behind."""

import itertools
import math
import secrets
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, connection

from schedules import clock, engine, services
from schedules.models import Event, Execution, Job
from schedules.result import Code, Err, Ok
from schedules.services import Actor
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.services.conftest import NOW

CRON = {"trigger_type": "cron", "cron": "*/5 * * * *", "timezone": "UTC"}
ONCE = {"trigger_type": "once", "run_at": NOW + timedelta(hours=1)}
INTERVAL = {"trigger_type": "interval", "every": timedelta(minutes=5)}
PLAIN = {"name": "Backup", "task": "tests.ping"}
NO_TRIGGER = {"run_at": None, "every": None, "cron": ""}

Status = Job.Status


def value_of(result):
    assert isinstance(result, Ok), result
    return result.value


def made(actor: Actor, **fields) -> Job:
    return value_of(services.schedule(actor, **(PLAIN | CRON | fields))).job


def verbs_on(job: Job) -> list[str]:
    return list(Event.objects.filter(job=job).order_by("pk").values_list("verb", flat=True))


@contextmanager
def meanwhile(statement, action):
    """Let somebody else act just before our next statement of this kind."""
    pending = [action]

    def intercept(execute, sql, *arguments):
        if sql.startswith(statement) and pending:
            pending.pop()()
        return execute(sql, *arguments)

    with connection.execute_wrapper(intercept):
        yield


# Making a job


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param(CRON, NOW + timedelta(minutes=5), id="cron"),
        pytest.param(ONCE, NOW + timedelta(hours=1), id="once"),
        pytest.param(INTERVAL, NOW + timedelta(minutes=5), id="interval"),
        pytest.param(
            INTERVAL | {"anchor_at": NOW - timedelta(minutes=3)}, NOW + timedelta(minutes=2), id="own grid"
        ),
    ],
)
def test_new_job_is_armed_for_its_first_slot(actor, trigger, next_run_at):
    job = value_of(services.schedule(actor, **PLAIN, **trigger)).job

    job.refresh_from_db()
    job.full_clean()
    assert (job.status, job.next_run_at) == (Status.PENDING, next_run_at)
    assert (job.owner, job.made_by, job.revision) == (actor.user, "olga", 1)
    assert job.public_id.startswith("job_")
    assert verbs_on(job) == ["create"]


def test_new_job_takes_the_owners_zone_and_the_tasks_own_policies(actor):
    job = value_of(
        services.schedule(
            actor,
            name="Tell me",
            task="notify",
            kwargs={"message": "hello", "topic": "home"},
            trigger_type="cron",
            cron="0 9 * * *",
        )
    ).job

    assert job.timezone == "Europe/Berlin"
    assert job.next_run_at == datetime(2026, 2, 5, 8, tzinfo=UTC)
    assert job.attempts > 1


def test_job_can_be_made_paused(actor):
    job = made(actor, paused=True)

    assert (job.status, job.next_run_at, job.paused_at) == (Status.PAUSED, None, NOW)


def test_job_by_an_agent_carries_the_agents_name(agent):
    job = made(agent)

    assert job.made_by == "laptop"
    assert Event.objects.get(job=job).actor == "laptop"


@pytest.mark.parametrize(("seconds", "is_twin"), [(59, True), (61, False)])
def test_one_off_of_the_same_minute_is_a_twin(actor, seconds, is_twin):
    first = made(actor, **NO_TRIGGER | ONCE)
    later = ONCE | {"run_at": ONCE["run_at"] + timedelta(seconds=seconds)}

    second = value_of(services.schedule(actor, **PLAIN, **later))

    assert second.similar == (first if is_twin else None)


def test_one_offs_of_both_passes_of_a_repeated_hour_are_no_twins(actor):
    first, second = (
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold) for fold in (0, 1)
    )
    made(actor, **NO_TRIGGER | ONCE | {"run_at": first})

    later = value_of(services.schedule(actor, **PLAIN, **ONCE | {"run_at": second}))

    assert later.similar is None


def test_twin_is_found_among_many_of_its_schedule(actor, settings):
    settings.CRONTY_MAX_CREATES_PER_MINUTE = 1000
    jobs = [made(actor, args=[number]) for number in range(60)]

    for job in (jobs[0], jobs[-1]):
        twin = value_of(services.schedule(actor, **PLAIN, **CRON, args=job.args))

        assert twin.similar == job


def test_active_twin_is_pointed_out(actor):
    first = made(actor)
    other = made(actor, args=[1])

    twin = value_of(services.schedule(actor, **PLAIN, **CRON))

    assert twin.similar == first
    assert twin.job not in (first, other)


def test_colliding_ids_are_a_surprise(actor, monkeypatch):
    monkeypatch.setattr(secrets, "randbelow", lambda limit: 7)
    made(actor)

    with pytest.raises(IntegrityError):
        services.schedule(actor, **PLAIN, **CRON)


# Idempotency keys


def test_same_request_with_the_same_key_gives_the_same_job(actor, time_machine):
    first = value_of(services.schedule(actor, idempotency_key="k", **PLAIN, **ONCE))
    time_machine.shift(timedelta(hours=2))

    again = value_of(services.schedule(actor, idempotency_key="k", **PLAIN, **ONCE))

    assert (again.job, again.existing) == (first.job, True)
    assert verbs_on(first.job) == ["create"]


def test_key_of_a_phrase_stands_for_what_was_written(actor, time_machine):
    first = value_of(services.schedule(actor, idempotency_key="k", request={"in": "1h"}, **PLAIN, **ONCE))
    time_machine.shift(timedelta(minutes=1))
    later = ONCE | {"run_at": ONCE["run_at"] + timedelta(minutes=1)}

    again = value_of(services.schedule(actor, idempotency_key="k", request={"in": "1h"}, **PLAIN, **later))

    assert (again.job, again.existing) == (first.job, True)


def test_same_key_for_another_request_is_refused(actor):
    made(actor, idempotency_key="k")

    refusal = services.schedule(actor, idempotency_key="k", **(PLAIN | CRON | {"name": "Other"}))

    assert isinstance(refusal, Err)
    assert refusal.code == Code.CONFLICT


def test_key_of_a_deleted_job_is_spent(actor):
    job = made(actor, idempotency_key="k")
    services.delete(actor, job.public_id)

    refusal = services.schedule(actor, idempotency_key="k", **PLAIN, **CRON)

    assert isinstance(refusal, Err)
    assert refusal.code == Code.CONFLICT
    assert refusal.message == "The job that the idempotency_key 'k' made was deleted: choose a new one."


def test_two_owners_may_use_the_same_key(actor, stranger):
    first = made(actor, idempotency_key="k")

    second = made(Actor(stranger, Event.Door.WEB), idempotency_key="k")

    assert first != second


@pytest.mark.parametrize("key", ["", "k" * 201, "k\x00", "k\u202e"], ids=["empty", "long", "NUL", "bidi"])
def test_odd_key_is_refused(actor, key):
    refusal = services.schedule(actor, idempotency_key=key, **PLAIN, **CRON)

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == ["idempotency_key"]


# Bad input, through both doors that take it


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def cron(expression: str, **more) -> dict:
    return NO_TRIGGER | CRON | {"cron": expression} | more


def once(moment, **more) -> dict:
    return NO_TRIGGER | {"trigger_type": "once", "run_at": moment} | more


def interval(every, **more) -> dict:
    return NO_TRIGGER | {"trigger_type": "interval", "every": every} | more


BAD_INPUT = {
    "no name": ({"name": ""}, "name", "blank"),
    "name of blanks": ({"name": "   "}, "name", "name"),
    "null name": ({"name": None}, "name", "null"),
    "long name": ({"name": "n" * 201}, "name", "200"),
    "NUL in the name": ({"name": "a\x00b"}, "name", "U+0000"),
    "line break in the name": ({"name": "a\nb"}, "name", "U+000A"),
    "line separator in the name": ({"name": "a\u2028b"}, "name", "U+2028"),
    "bidirectional name": ({"name": "txt.\u202eexe"}, "name", "U+202E"),
    "half a character in the name": ({"name": "\ud800"}, "name", "U+D800"),
    "bidirectional label": ({"label": "\u2066"}, "label", "U+2066"),
    "unknown task": ({"task": "os.system"}, "task", "Choose one of"),
    "task of the system": ({"task": "prune_history"}, "task", "Unknown task"),
    "args that are no list": ({"args": {"a": 1}}, "args", "list"),
    "kwargs that are no object": ({"kwargs": [1]}, "kwargs", "object"),
    "unknown argument": ({"kwargs": {"colour": 1}}, "kwargs", "colour"),
    "argument of the wrong type": ({"kwargs": {"fail": "maybe"}}, "kwargs", "fail"),
    "NaN": ({"args": [math.nan]}, "args", "finite"),
    "infinity": ({"kwargs": {"fail": -math.inf}}, "kwargs", "finite"),
    "number of 5,000 digits": ({"args": [10**5000]}, "args", "64 bits"),
    "deep JSON": ({"args": nested(11)}, "args", "deep"),
    "abysmal JSON": ({"args": nested(100_000)}, "args", "deep"),
    "huge JSON": ({"args": ["x" * 20_000]}, "args", "Too large"),
    "NUL in JSON": ({"args": ["\x00"]}, "args", "NUL"),
    "half a character in JSON": ({"args": ["\ud800"]}, "args", "surrogate"),
    "number as a key": ({"kwargs": {1: 1}}, "kwargs", "key"),
    "set in JSON": ({"args": [{1}]}, "args", "set"),
    "tags that are no list": ({"tags": "home"}, "tags", "list"),
    "too many tags": ({"tags": ["t"] * 21}, "tags", "20"),
    "empty tag": ({"tags": [""]}, "tags", "1 to 50"),
    "bidirectional tag": ({"tags": ["\u202e"]}, "tags", "U+202E"),
    "impossible cron": (cron("61 * * * *"), "cron", ""),
    "cron that never fires": (cron("0 0 30 2 *"), "cron", ""),
    "reversed range": (cron("0 17-9 * * *"), "cron", ""),
    "101 characters": (cron("0 9 * * " + ",".join("1" * 47)), "cron", "100"),
    "six fields": (cron("0 0 9 * * *"), "cron", ""),
    "@reboot": (cron("@reboot"), "cron", ""),
    "question mark": (cron("0 9 ? * *"), "cron", ""),
    "NUL in cron": (cron("0 9 * * \x00"), "cron", ""),
    "no cron": (cron(""), "cron", "needs it"),
    "no cron, as None": (cron(None), "cron", "needs it"),
    "unknown zone": (cron("0 9 * * *", timezone="Mars/Base"), "timezone", "Europe/Berlin"),
    "zone that is a path": (cron("0 9 * * *", timezone="../../etc/passwd"), "timezone", "Unknown"),
    "empty zone": (cron("0 9 * * *", timezone=""), "timezone", ""),
    "unknown trigger type": (cron("0 9 * * *", trigger_type="lunar"), "trigger_type", "lunar"),
    "two triggers": (cron("0 9 * * *", every=timedelta(hours=1)), "every", "Leave this empty"),
    "naive moment": (once(datetime(2026, 3, 1, 9)), "run_at", "zone"),  # noqa: DTZ001
    "past moment": (once(NOW - timedelta(seconds=1)), "run_at", "past"),
    "this very moment": (once(NOW), "run_at", "past"),
    "year 9999": (once(datetime(9999, 12, 31, tzinfo=UTC)), "run_at", "five years"),
    "end of the calendar": (
        once(datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-12)))),
        "run_at",
        "calendar",
    ),
    "no moment": (once(None), "run_at", "needs it"),
    "interval of nothing": (interval(timedelta(0)), "every", ""),
    "negative interval": (interval(timedelta(seconds=-60)), "every", ""),
    "fractional interval": (interval(timedelta(seconds=1.5)), "every", "whole seconds"),
    "huge interval": (interval(timedelta(days=4000)), "every", "five years"),
    "longest timedelta": (interval(timedelta.max), "every", ""),
    "interval as a number": (interval(300), "every", "duration"),
    "grid in 9999": (
        interval(timedelta(hours=1), anchor_at=datetime(9999, 1, 1, tzinfo=UTC)),
        "anchor_at",
        "five years",
    ),
    "grid of a cron job": (cron("0 9 * * *", anchor_at=NOW), "anchor_at", "interval"),
    "naive end": ({"ends_at": datetime(2027, 1, 1)}, "ends_at", "zone"),  # noqa: DTZ001
    "end before the first run": ({"ends_at": NOW + timedelta(minutes=1)}, "ends_at", "later"),
    "no runs": ({"max_runs": 0}, "max_runs", "1"),
    "negative runs": ({"max_runs": -1}, "max_runs", ""),
    "fraction of a run": ({"max_runs": 1.5}, "max_runs", "whole"),
    "endless runs": ({"max_runs": math.inf}, "max_runs", "whole"),
    "astronomic runs": ({"max_runs": 10**30}, "max_runs", ""),
    "no attempts": ({"attempts": 0}, "attempts", "1"),
    "eleven attempts": ({"attempts": 11}, "attempts", "10"),
    "no time": ({"timeout": timedelta(0)}, "timeout", "one second"),
    "two days' time": ({"timeout": timedelta(days=2)}, "timeout", "one day"),
    "null time": ({"timeout": None}, "timeout", ""),
    "negative backoff": ({"backoff": timedelta(seconds=-1)}, "backoff", "zero"),
    "unknown overlap": ({"overlap": "perhaps"}, "overlap", "perhaps"),
    "unknown catch-up": ({"catch_up": "some"}, "catch_up", "some"),
    "negative failures": ({"pause_after_failures": -1}, "pause_after_failures", ""),
}
bad_input = pytest.mark.parametrize(("fields", "field", "words"), BAD_INPUT.values(), ids=BAD_INPUT.keys())


@bad_input
def test_bad_input_makes_no_job_and_names_the_field(actor, fields, field, words):
    refusal = services.schedule(actor, **(PLAIN | CRON | fields))

    assert isinstance(refusal, Err)
    assert refusal.code == Code.INVALID
    assert field in refusal.errors
    assert words in " ".join(refusal.errors[field])
    assert f"{field}: " in refusal.message
    assert not Job.objects.exists()
    assert not Event.objects.exists()


@bad_input
def test_bad_input_changes_nothing_and_names_the_field(actor, fields, field, words):
    job = JobFactory(owner=actor.user, next_run_at=NOW + timedelta(minutes=5))
    before = Job.objects.values().get(pk=job.pk)

    refusal = services.edit(actor, job.public_id, **fields)

    assert isinstance(refusal, Err)
    assert refusal.code == Code.INVALID
    assert field in refusal.errors
    assert words in " ".join(refusal.errors[field])
    assert Job.objects.values().get(pk=job.pk) == before
    assert not Event.objects.exists()


def test_agents_have_a_smallest_interval_of_their_own(agent, actor):
    fast = PLAIN | INTERVAL | {"every": timedelta(seconds=9)}

    refusal = services.schedule(agent, **fast)

    assert isinstance(refusal, Err)
    assert "10 seconds" in refusal.errors["every"][0]
    assert isinstance(services.schedule(actor, **fast), Ok)


def test_wall_time_that_a_clock_change_skips_runs_when_the_gap_ends(actor, time_machine):
    time_machine.move_to(datetime(2026, 3, 28, 12, tzinfo=UTC), tick=False)

    job = made(actor, cron="30 2 * * *", timezone="Europe/Berlin")

    assert job.next_run_at == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_schedule_without_any_run_left_in_the_calendar_is_refused(actor, time_machine):
    time_machine.move_to(datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC), tick=False)

    refusal = services.schedule(
        actor, **PLAIN, trigger_type="interval", every=timedelta(hours=1), timezone="UTC"
    )

    assert isinstance(refusal, Err)
    assert refusal.code == Code.INVALID


# Every verb in every state


def act(verb: str, actor: Actor, job_id: str):
    changes = {"name": "Renamed"} if verb == "edit" else {}
    return getattr(services, verb)(actor, job_id, **changes)


def job_in(state: str, **fields) -> Job:
    if state == "trashed":
        return JobFactory(deleted_at=NOW - timedelta(minutes=1), **fields)
    armed = {"next_run_at": NOW + timedelta(minutes=5)} if state == "pending" else {"next_run_at": None}
    return JobFactory(status=state, paused_at=NOW if state == "paused" else None, **(armed | fields))


STATES = [*Status.values, "trashed"]
# For each verb, the states it works in; any other is the wrong one, and the trash is out of sight.
WORKS_IN = {
    "edit": ["pending", "paused"],
    "pause": ["pending"],
    "resume": ["paused"],
    "cancel": ["pending", "running", "paused"],
    "delete": Status.values,
    "restore": ["trashed"],
    "run_now": Status.values,
}
TRANSITIONS = [
    pytest.param(verb, state, state in works_in, id=f"{verb} when {state}")
    for verb, works_in in WORKS_IN.items()
    for state in STATES
]


@pytest.mark.parametrize(("verb", "state", "works"), TRANSITIONS)
def test_verb_works_in_its_states_and_in_no_other(actor, verb, state, works):
    job = job_in(state, owner=actor.user)
    before = Job.objects.values().get(pk=job.pk)

    result = act(verb, actor, job.public_id)

    if works:
        assert isinstance(result, Ok)
        assert len(verbs_on(job)) == 1
    else:
        out_of_sight = state == "trashed" or verb == "restore"
        assert isinstance(result, Err)
        assert result.code == (Code.NOT_FOUND if out_of_sight else Code.WRONG_STATE)
        assert Job.objects.values().get(pk=job.pk) == before
        assert verbs_on(job) == []


@pytest.mark.parametrize("verb", WORKS_IN)
def test_somebody_elses_job_does_not_exist(agent, actor, stranger, verb):
    state = "trashed" if verb == "restore" else "paused" if verb == "resume" else "pending"
    job = job_in(state, owner=stranger)

    for somebody in (agent, actor):
        foreign = act(verb, somebody, job.public_id)
        unknown = act(verb, somebody, "job_1_1")

        assert foreign == Err(Code.NOT_FOUND, f"Job not found: {job.public_id}")
        assert unknown == Err(Code.NOT_FOUND, "Job not found: job_1_1")
    assert verbs_on(job) == []


@pytest.mark.parametrize("verb", WORKS_IN)
def test_staff_look_after_everybodys_jobs_on_the_pages(operator, stranger, verb):
    state = "trashed" if verb == "restore" else "paused" if verb == "resume" else "pending"
    job = job_in(state, owner=stranger)

    result = act(verb, Actor(operator, Event.Door.ADMIN), job.public_id)

    assert isinstance(result, Ok)
    event = Event.objects.get(job=job)
    assert (event.actor, event.door, event.owner) == ("otto", "admin", stranger)


@pytest.mark.parametrize("verb", WORKS_IN)
@pytest.mark.parametrize(
    "job_id", ["", "a\x00b", "\ud800", "j" * 10_000], ids=["empty", "NUL", "half", "long"]
)
def test_odd_id_is_an_unknown_one(actor, verb, job_id):
    result = act(verb, actor, job_id)

    assert isinstance(result, Err)
    assert result.code == Code.NOT_FOUND


# Editing


def test_edit_changes_what_was_given_and_records_before_and_after(actor):
    job = made(actor)

    edited = value_of(services.edit(actor, job.public_id, revision=1, name="Nightly", attempts=3))

    assert (edited.name, edited.attempts, edited.revision) == ("Nightly", 3, 2)
    assert edited.next_run_at == job.next_run_at
    event = Event.objects.get(job=job, verb="edit")
    assert event.before == {"name": "Backup", "attempts": 1}
    assert event.after == {"name": "Nightly", "attempts": 3}


def test_edit_that_changes_nothing_leaves_no_event(actor):
    job = made(actor)

    same = value_of(services.edit(actor, job.public_id, revision=1, name=job.name))

    assert same.revision == 1
    assert verbs_on(job) == ["create"]


def test_restored_job_begins_without_failures(actor):
    job = JobFactory(owner=actor.user, failure_streak=3)
    services.delete(actor, job.public_id)

    assert value_of(services.restore(actor, job.public_id)).failure_streak == 0


def test_edit_of_an_old_revision_is_refused_with_clear_words(actor):
    job = made(actor)
    services.edit(actor, job.public_id, name="First")

    refusal = services.edit(actor, job.public_id, revision=1, name="Second")

    assert isinstance(refusal, Err)
    assert refusal.code == Code.CONFLICT
    assert "Somebody else changed this job" in refusal.message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"revision": 9}, Code.CONFLICT, id="edited"),
        pytest.param({"status": Status.CANCELLED, "next_run_at": None}, Code.WRONG_STATE, id="cancelled"),
        pytest.param({"deleted_at": NOW}, Code.NOT_FOUND, id="deleted"),
    ],
)
def test_edit_loses_against_a_change_after_it_read_the_job(actor, change, code):
    job = made(actor)

    with meanwhile('UPDATE "schedules_job"', lambda: Job.objects.filter(pk=job.pk).update(**change)):
        refusal = services.edit(actor, job.public_id, name="Too late")

    assert isinstance(refusal, Err)
    assert refusal.code == code
    assert verbs_on(job) == ["create"]


def test_edit_of_a_job_that_merely_fired_meanwhile_goes_through(actor, time_machine):
    job = made(actor)
    time_machine.move_to(job.next_run_at, tick=False)
    worker = ClusterFactory()

    with meanwhile('UPDATE "schedules_job"', lambda: engine.claim_runs(worker.pk, clock.now(), 10)):
        edited = value_of(services.edit(actor, job.public_id, revision=1, cron="*/10 * * * *"))

    assert (edited.revision, edited.next_run_at) == (2, NOW + timedelta(minutes=10))
    assert list(job.executions.values_list("status", "scheduled_for")) == [
        ("claimed", NOW + timedelta(minutes=5))
    ]
    assert verbs_on(job) == ["create", "edit"]


def test_edit_of_a_job_that_fires_all_the_time_gives_up(actor):
    job = made(actor)
    moments = itertools.count(10)

    def fire(execute, sql, *arguments):
        if sql.startswith('UPDATE "schedules_job"') and "revision" in sql:
            Job.objects.filter(pk=job.pk).update(next_run_at=NOW + timedelta(minutes=next(moments)))
        return execute(sql, *arguments)

    with connection.execute_wrapper(fire):
        refusal = services.edit(actor, job.public_id, name="Never")

    assert isinstance(refusal, Err)
    assert refusal.code == Code.CONFLICT
    assert verbs_on(job) == ["create"]


@pytest.mark.parametrize(
    ("trigger", "next_run_at"),
    [
        pytest.param(cron("0 12 * * *"), NOW + timedelta(hours=3), id="to cron"),
        pytest.param(once(NOW + timedelta(days=1)), NOW + timedelta(days=1), id="to once"),
        pytest.param(interval(timedelta(minutes=7)), NOW + timedelta(minutes=7), id="to interval"),
    ],
)
@pytest.mark.parametrize("start", [CRON, ONCE, INTERVAL], ids=["from cron", "from once", "from interval"])
def test_edit_can_turn_any_trigger_into_any_other(actor, start, trigger, next_run_at):
    job = value_of(services.schedule(actor, **PLAIN, **(start | {"timezone": "UTC"}))).job

    edited = value_of(services.edit(actor, job.public_id, **trigger))

    edited.full_clean()
    assert edited.next_run_at == next_run_at


def test_new_length_of_an_interval_starts_a_new_grid(actor, time_machine):
    job = made(actor, **interval(timedelta(minutes=5)))
    time_machine.shift(timedelta(minutes=2))

    edited = value_of(services.edit(actor, job.public_id, every=timedelta(minutes=10)))

    assert edited.next_run_at == edited.anchor_at == NOW + timedelta(minutes=12)


def test_grid_that_was_cleared_starts_anew(actor, time_machine):
    job = made(actor, **interval(timedelta(minutes=5)))
    time_machine.shift(timedelta(minutes=2))

    edited = value_of(services.edit(actor, job.public_id, anchor_at=None))

    assert edited.next_run_at == edited.anchor_at == NOW + timedelta(minutes=7)


def test_edit_of_a_paused_job_leaves_it_paused(actor):
    job = made(actor, paused=True)

    edited = value_of(services.edit(actor, job.public_id, cron="0 12 * * *"))

    assert (edited.status, edited.next_run_at) == (Status.PAUSED, None)


def test_max_runs_below_what_already_ran_is_refused(actor):
    job = JobFactory(owner=actor.user, slot_count=5, next_run_at=NOW + timedelta(minutes=5))

    refusal = services.edit(actor, job.public_id, max_runs=5)

    assert isinstance(refusal, Err)
    assert "run 5 times" in refusal.errors["max_runs"][0]


# Pausing and resuming


def test_pause_keeps_its_reason_and_its_end(actor):
    job = made(actor)
    until = NOW + timedelta(hours=2)

    paused = value_of(services.pause(actor, job.public_id, reason="holidays", until=until))

    assert (paused.pause_reason, paused.paused_until, paused.paused_at) == ("holidays", until, NOW)
    assert Event.objects.get(job=job, verb="pause").after == {
        "reason": "holidays",
        "until": until.isoformat(),
    }


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        pytest.param({"until": NOW}, "until", id="until now"),
        pytest.param({"until": datetime(2027, 1, 1)}, "until", id="naive until"),  # noqa: DTZ001
        pytest.param({"reason": "r" * 201}, "reason", id="long reason"),
        pytest.param({"reason": "\x00"}, "reason", id="NUL in the reason"),
    ],
)
def test_odd_pause_is_refused(actor, arguments, field):
    job = made(actor)

    refusal = services.pause(actor, job.public_id, **arguments)

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == [field]
    assert verbs_on(job) == ["create"]


def test_resumed_job_starts_with_a_clean_slate(actor, time_machine):
    job = made(actor)
    services.pause(actor, job.public_id, reason="holidays", until=NOW + timedelta(days=1))
    Job.objects.filter(pk=job.pk).update(failure_streak=9)
    time_machine.shift(timedelta(hours=1))

    resumed = value_of(services.resume(actor, job.public_id))

    assert (resumed.status, resumed.next_run_at) == (Status.PENDING, NOW + timedelta(minutes=65))
    assert (resumed.pause_reason, resumed.paused_until, resumed.failure_streak) == ("", None, 0)


def test_job_of_which_nobody_knows_when_it_was_paused_is_resumed(actor):
    job = JobFactory(owner=actor.user, paused=True, paused_at=None)

    assert value_of(services.resume(actor, job.public_id)).status == Status.PENDING


def test_paused_one_off_whose_time_passed_is_not_resumed(actor, time_machine):
    job = value_of(services.schedule(actor, paused=True, **PLAIN, **ONCE)).job
    time_machine.shift(timedelta(hours=2))

    refusal = services.resume(actor, job.public_id)

    assert isinstance(refusal, Err)
    assert "has passed" in refusal.errors["run_at"][0]


def test_job_that_ended_during_its_pause_is_not_resumed(actor, time_machine):
    job = made(actor, paused=True, ends_at=NOW + timedelta(hours=1))
    time_machine.shift(timedelta(hours=2))

    refusal = services.resume(actor, job.public_id)

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == ["ends_at"]


def test_job_whose_schedule_cannot_be_read_is_not_resumed(actor):
    job = JobFactory(owner=actor.user, paused=True, timezone="Mars/Base")

    refusal = services.resume(actor, job.public_id)

    assert isinstance(refusal, Err)
    assert list(refusal.errors) == ["timezone"]


# Cancelling, deleting, restoring


@pytest.mark.parametrize("verb", ["cancel", "delete"])
def test_what_was_queued_is_taken_back_and_what_runs_goes_on(actor, verb):
    job = JobFactory(owner=actor.user)
    rows = {
        status: ExecutionFactory(job=job, status=status, cause="manual")
        for status in ("queued", "claimed", "running", "waiting", "succeeded")
    }

    act(verb, actor, job.public_id)

    ended = {status: Execution.objects.get(pk=row.pk).status for status, row in rows.items()}
    assert ended == {
        "queued": "cancelled",
        "claimed": "cancelled",
        "running": "running",
        "waiting": "cancelled",
        "succeeded": "succeeded",
    }


def test_pause_leaves_runs_that_a_person_asked_for(actor):
    job = JobFactory(owner=actor.user)
    asked = ExecutionFactory(job=job, status="queued", cause="manual")
    scheduled = ExecutionFactory(job=job, status="queued", cause="schedule")

    services.pause(actor, job.public_id)

    asked.refresh_from_db()
    scheduled.refresh_from_db()
    assert (asked.status, scheduled.status) == ("queued", "cancelled")


def test_deleted_job_disappears_and_its_history_stays(actor, agent):
    job = made(actor)
    run = ExecutionFactory(job=job)

    services.delete(actor, job.public_id)

    assert not actor.jobs().exists()
    assert not agent.jobs().exists()
    assert list(actor.trash()) == [job]
    run.refresh_from_db()
    assert run.job == job


def test_restored_job_is_armed_again(actor, time_machine):
    job = made(actor)
    services.delete(actor, job.public_id)
    time_machine.shift(timedelta(minutes=12))

    restored = value_of(services.restore(actor, job.public_id))

    assert (restored.status, restored.next_run_at) == (Status.PENDING, NOW + timedelta(minutes=15))
    assert verbs_on(job) == ["create", "delete", "restore"]


@pytest.mark.parametrize("state", ["paused", "completed", "failed", "cancelled"])
def test_restored_job_is_as_it_was(actor, state):
    job = job_in(state, owner=actor.user)
    services.delete(actor, job.public_id)

    assert value_of(services.restore(actor, job.public_id)).status == state


def test_one_off_whose_time_passed_in_the_trash_comes_back_paused(actor, time_machine):
    job = value_of(services.schedule(actor, **PLAIN, **ONCE)).job
    services.delete(actor, job.public_id)
    time_machine.shift(timedelta(days=1))

    restored = value_of(services.restore(actor, job.public_id))

    assert (restored.status, restored.next_run_at) == (Status.PAUSED, None)
    assert "trash" in restored.pause_reason


def test_job_whose_schedule_cannot_be_read_comes_back_paused(actor):
    job = JobFactory(owner=actor.user, cron="nonsense", deleted_at=NOW)

    restored = value_of(services.restore(actor, job.public_id))

    assert restored.status == Status.PAUSED
    assert "cannot be read" in restored.pause_reason


@pytest.mark.parametrize(("run", "status"), [("running", "running"), ("cancelled", "completed")])
def test_job_deleted_in_its_last_run_comes_back_as_that_run_stands(actor, run, status):
    job = job_in("running", owner=actor.user)
    ExecutionFactory(job=job, status=run)
    services.delete(actor, job.public_id)

    assert value_of(services.restore(actor, job.public_id)).status == status


def test_trash_is_no_way_around_the_quota(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 1
    first = made(actor)
    services.delete(actor, first.public_id)
    second = made(actor)

    refusal = services.restore(actor, first.public_id)

    assert isinstance(refusal, Err)
    assert refusal.code == Code.QUOTA
    services.cancel(actor, second.public_id)
    assert isinstance(services.restore(actor, first.public_id), Ok)


# Running now


def test_run_now_queues_one_run_and_leaves_the_schedule(actor):
    job = made(actor)

    execution = value_of(services.run_now(actor, job.public_id))

    assert (execution.status, execution.cause, execution.available_at) == ("queued", "manual", NOW)
    assert (execution.job_name, execution.task, execution.owner) == (job.name, job.task, actor.user)
    assert Job.objects.get(pk=job.pk).next_run_at == job.next_run_at


def test_only_so_many_runs_wait_at_once(actor):
    job = made(actor)
    for _ in range(10):
        value_of(services.run_now(actor, job.public_id))

    refusal = services.run_now(actor, job.public_id)

    assert isinstance(refusal, Err)
    assert refusal.code == Code.QUOTA


# Every slot is accounted for exactly once, whatever is done to a job

SCRIPTS = {
    "cancelled on time": [],
    "paused": [(7, "pause"), (22, "resume")],
    "paused and resumed on the slot": [(10, "pause"), (20, "resume")],
    "paused twice in a moment": [(10, "pause"), (10, "resume"), (10, "pause")],
    "paused long after nobody fired it": [(33, "pause"), (34, "resume")],
    "cancelled in the pause": [(7, "pause")],
    "deleted and restored": [(12, "delete"), (27, "restore")],
    "deleted and restored on the slot": [(15, "delete"), (25, "restore")],
    "deleted in the pause": [(5, "pause"), (15, "delete"), (25, "restore"), (30, "resume")],
    "deleted in the pause and cancelled": [(7, "pause"), (13, "delete"), (27, "restore")],
    "edited": [(12, "edit")],
    "edited on the slot": [(10, "edit")],
    "edited in the pause": [(7, "pause"), (15, "edit"), (26, "resume")],
    "all of it": [(5, "pause"), (10, "edit"), (20, "resume"), (25, "delete"), (35, "restore"), (36, "edit")],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("trigger", [CRON, INTERVAL], ids=["cron", "interval"])
def test_every_slot_is_accounted_for_exactly_once(actor, time_machine, trigger, script):
    job = value_of(services.schedule(actor, **PLAIN, **trigger)).job
    for count, (minute, verb) in enumerate(script):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        changes = {"max_runs": 100 + count} if verb == "edit" else {}
        value_of(getattr(services, verb)(actor, job.public_id, **changes))

    time_machine.move_to(NOW + timedelta(minutes=40), tick=False)
    value_of(services.cancel(actor, job.public_id))

    slots = Counter(slot for row in job.executions.all() for slot in slots_of(row))
    assert slots == Counter(NOW + timedelta(minutes=minute) for minute in range(5, 41, 5))
    assert set(job.executions.values_list("status", flat=True)) == {"skipped"}


AFTER_A_SETBACK = {
    "edited": ["edit"],
    "deleted and restored": ["delete", "restore"],
    "paused and resumed": ["pause", "resume"],
    "edited in a pause": ["pause", "edit", "resume"],
    "deleted in a pause": ["pause", "delete", "restore", "resume"],
}


@pytest.mark.parametrize("verbs", AFTER_A_SETBACK.values(), ids=AFTER_A_SETBACK.keys())
@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
@pytest.mark.parametrize("trigger", [CRON, INTERVAL], ids=["cron", "interval"])
def test_every_slot_has_one_row_where_the_clock_was_ahead_before(
    actor, time_machine, trigger, catch_up, verbs
):
    """The clock shows an hour more for a while, in which the job is claimed; then it is put right."""
    job = value_of(services.schedule(actor, **PLAIN, **trigger, catch_up=catch_up, overlap="allow")).job
    worker = ClusterFactory()
    time_machine.move_to(NOW + timedelta(minutes=63), tick=False)
    ran_ahead = len(engine.claim_runs(worker.pk, clock.now(), 100))
    for minute, verb in enumerate(verbs, 11):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        changes = {"max_runs": 1000} if verb == "edit" else {}
        value_of(getattr(services, verb)(actor, job.public_id, **changes))

    ran = 0
    for minute in range(16, 91):
        time_machine.move_to(NOW + timedelta(minutes=minute), tick=False)
        ran += len(engine.claim_runs(worker.pk, clock.now(), 100))

    slots = Counter(slot for row in job.executions.all() for slot in slots_of(row))
    assert slots == Counter(NOW + timedelta(minutes=minute) for minute in range(5, 91, 5))
    # From minute 15 to minute 90 each slot runs, but for those that ran when the clock was ahead.
    assert ran == 16 - {"once": 1, "all": 10, "none": 0}[catch_up]
    assert ran_ahead == {"once": 1, "all": 12, "none": 0}[catch_up]


def slots_of(row: Execution) -> list[datetime]:
    """What a row accounts for: its one slot, or every five minutes from the first to the last of a gap."""
    slots = [row.scheduled_for + timedelta(minutes=5) * number for number in range(row.slots)]
    assert slots[-1] == (row.last_slot or row.scheduled_for)
    return slots


def test_slots_of_a_pause_say_that_they_were_paused(actor, time_machine):
    job = made(actor)
    services.pause(actor, job.public_id, reason="holidays")
    time_machine.shift(timedelta(hours=1))

    services.cancel(actor, job.public_id)

    gap = job.executions.get()
    assert (gap.slots, gap.reason) == (12, "Paused: holidays")


def test_slots_after_the_end_of_a_job_are_owed_to_nobody(actor, time_machine):
    job = made(actor, ends_at=NOW + timedelta(minutes=11))
    time_machine.shift(timedelta(hours=1))

    services.cancel(actor, job.public_id)

    assert job.executions.get().slots == 2
