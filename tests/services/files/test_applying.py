"""Files applied and exported: plans field by field, one transaction, drift, and the same file again."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from schedules import clock, services
from schedules.models import Channel, Event, Execution, Job
from schedules.result import Err, Kind, Ok
from schedules.secrets import masking
from schedules.services.files.applying import apply_plan, export_jobs, exportable
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import Action, Plan, make_plan
from schedules.services.files.sources import has_drifted, source_note, sources_of
from schedules.services.people.preferences import update_profile
from tests.factories import ExecutionFactory, JobFactory

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
FILE = """
timezone: Europe/Berlin
jobs:
  Stand-up:
    schedule: every weekday at 8:30
    task: notify
    arguments: {message: Stand up, topic: olga-phone}
    tags: [home]
  Hook:
    schedule: {every: 36h}
    task: webhook
    arguments: {url: https://example.org/, headers: {X-Api-Key: hunter2}, body: "one\\ntwo\\n"}
    ends_at: 2027-12-31
    max_runs: 9
    timeout: 5m
  Rent:
    schedule: {months: 1, start: 2026-12-01T09:00}
    timezone: UTC
    task: prompt
    arguments: {prompt: "on"}
  Party:
    schedule: 2026-12-24T18:00
    task: tests.ping
"""


@pytest.fixture(autouse=True)
def clock_at_now():
    with time_machine.travel(NOW, tick=False) as moved:
        yield moved


def planned(actor, text: str = FILE, source: str = "jobs.yaml", **options) -> Plan:
    now = clock.now()
    specs, problems = read_jobs([(source, text)], "UTC", now)
    assert problems == []
    return make_plan(actor, source, specs, now, **options)


def applied(actor, text: str = FILE, source: str = "jobs.yaml", **options) -> Plan:
    plan = planned(actor, text, source, **options)
    assert plan.problems == []
    assert apply_plan(actor, plan) == Ok(plan)
    return plan


def steps_of(plan: Plan) -> list[tuple[str, str]]:
    return [(step.action.value, step.key) for step in plan.steps]


def job(name: str) -> Job:
    return Job.objects.get(name=name)


def test_jobs_are_created_once(actor):
    first = applied(actor)
    second = applied(actor)

    assert steps_of(first) == [("create", name) for name in ("Stand-up", "Hook", "Rent", "Party")]
    assert (steps_of(second), second.unchanged) == ([], 4)
    stored = job("Stand-up")
    assert (stored.cron, stored.timezone, stored.tags) == ("30 8 * * 1-5", "Europe/Berlin", ["home"])
    assert (stored.source, stored.source_key, stored.made_by, stored.attempts) == (
        "jobs.yaml",
        "Stand-up",
        actor.label,
        5,
    )
    assert source_note(stored) == "jobs.yaml"
    event = Event.objects.get(job=stored)
    assert (event.verb, event.after["cron"]) == ("create", "30 8 * * 1-5")
    assert "hunter2" not in str(Event.objects.get(job=job("Hook")).after)


def test_created_jobs_equal_those_of_the_single_service(actor):
    applied(actor)
    made = services.schedule(
        actor,
        name="Stand-up",
        task="notify",
        kwargs={"message": "Stand up", "topic": "olga-phone"},
        trigger_type="cron",
        cron="30 8 * * 1-5",
        timezone="Europe/Berlin",
        tags=["home"],
    )
    ours, theirs = job_rows("jobs.yaml"), job_rows("")

    assert isinstance(made, Ok)
    ignored = {"id", "public_id", "source", "source_key", "source_digest", "request_digest"}
    assert {k: v for k, v in ours.items() if k not in ignored} == {
        k: v for k, v in theirs.items() if k not in ignored
    }


def job_rows(source: str) -> dict[str, object]:
    return Job.objects.filter(name="Stand-up", source=source).values().get()


def test_notification_without_a_place_goes_to_the_default_one(actor):
    text = FILE.replace(", topic: olga-phone", "")
    assert "topic or a channel" in str(planned(actor, text).problems)

    update_profile(actor.user, topic="plants")
    applied(actor, text)
    assert job("Stand-up").kwargs == {"message": "Stand up", "topic": "plants"}
    assert steps_of(planned(actor, text)) == []

    update_profile(actor.user, topic="garden")
    [step] = planned(actor, text).steps
    assert [(each.field, each.after) for each in step.differences] == [("arguments.topic", "garden")]


def test_channel_named_after_then_is_no_difference(actor):
    Channel.objects.create(owner=actor.user, name="phone", kind="ntfy", created_at=NOW, updated_at=NOW)
    text = FILE.replace("olga-phone}", "olga, ask: every 10m then phone}")
    applied(actor, text)

    assert job("Stand-up").kwargs["ask"] == "every 10m then channel:phone"
    assert steps_of(applied(actor, text)) == []


def test_changes_are_listed_field_by_field_and_applied(actor):
    applied(actor)
    before = job("Stand-up")

    plan = applied(
        actor,
        FILE.replace("8:30", "9:15")
        .replace("message: Stand up", "message: Sit down")
        .replace("[home]", "[]"),
    )

    (step,) = plan.steps
    assert (step.action, step.key) == (Action.CHANGE, "Stand-up")
    assert {(each.field, each.before, each.after) for each in step.differences} == {
        ("tags", '["home"]', "[]"),
        ("schedule", "Every weekday at 08:30", "Every weekday at 09:15"),
        ("arguments.message", "Stand up", "Sit down"),
    }
    after = job("Stand-up")
    assert (after.pk, after.cron, after.tags, after.revision) == (
        before.pk,
        "15 9 * * 1-5",
        [],
        before.revision + 1,
    )
    assert after.next_run_at != before.next_run_at
    assert Event.objects.filter(job=after, verb="edit").count() == 1
    assert not has_drifted(after)
    assert planned(actor, FILE).count(Action.CHANGE) == 1


def test_secrets_are_never_shown(actor):
    applied(actor)

    plan = planned(actor, FILE.replace("hunter2", "hunter3"))

    masked = json.dumps({"X-Api-Key": masking.MASK}, ensure_ascii=False)
    assert [(each.field, each.before, each.after) for each in plan.steps[0].differences] == [
        ("arguments.headers", masked, masked)
    ]
    assert "hunter" not in str([step.differences for step in plan.steps])


def test_change_elsewhere_is_drift_and_undone(actor):
    applied(actor)
    services.edit(actor, job("Stand-up").public_id, name="Lie down", attempts=1)
    drifted = Job.objects.get(source_key="Stand-up")

    assert source_note(drifted) == "jobs.yaml (changed since it was applied)"
    applied(actor)
    drifted.refresh_from_db()
    assert (drifted.name, drifted.attempts, has_drifted(drifted)) == ("Stand-up", 5, False)


@pytest.mark.parametrize("change", [services.delete, services.cancel])
def test_deleted_and_cancelled_jobs_come_back(actor, change):
    applied(actor)
    change(actor, job("Stand-up").public_id)

    assert has_drifted(job("Stand-up"))
    plan = applied(actor, FILE.replace("8:30", "9:15"))

    assert [(step.key, step.is_restored) for step in plan.steps] == [("Stand-up", True)]
    back = job("Stand-up")
    assert (back.status, back.deleted_at, back.cron) == ("pending", None, "15 9 * * 1-5")
    assert not has_drifted(back)


def test_pause_is_left_alone_unless_the_file_speaks_of_it(actor):
    applied(actor)
    services.pause(actor, job("Stand-up").public_id)

    assert not has_drifted(job("Stand-up"))
    assert steps_of(planned(actor)) == []
    plan = applied(actor, FILE.replace("tags: [home]", "paused: false"))
    assert [step.paused for step in plan.steps] == [False]
    assert (job("Stand-up").status, job("Stand-up").tags) == ("pending", [])
    applied(actor, FILE.replace("tags: [home]", "paused: true"))
    assert job("Stand-up").status == "paused"
    assert steps_of(planned(actor, FILE.replace("tags: [home]", "paused: true"))) == []


def test_jobs_are_deleted_only_when_asked(actor):
    applied(actor)
    shorter = "timezone: Europe/Berlin\njobs:\n  Rent:" + FILE.split("  Rent:")[1]

    assert steps_of(planned(actor, shorter)) == []
    plan = applied(actor, shorter, prune=True)

    assert sorted(steps_of(plan)) == [("delete", "Hook"), ("delete", "Stand-up")]
    assert steps_of(planned(actor, shorter, prune=True)) == []
    assert steps_of(applied(actor)) == [("change", "Stand-up"), ("change", "Hook")]
    assert Job.objects.kept().count() == 4


def test_other_sources_and_other_people_are_left_alone(actor, operator):
    theirs = services.Actor(operator)
    applied(actor)
    applied(actor, "jobs: {Other: {task: tests.ping, schedule: every day at 9:00}}", "other.yaml")
    applied(theirs)

    plan = planned(actor, "jobs: {}", prune=True)

    assert len(plan.steps) == 4
    assert {step.job.owner_id for step in plan.steps} == {actor.user.pk}
    assert {step.job.source for step in plan.steps} == {"jobs.yaml"}


def test_export_is_taken_over_instead_of_created_again(actor):
    services.schedule(actor, name="Ping", task="tests.ping", trigger_type="cron", cron="0 9 * * *")
    services.schedule(actor, name="Ping", task="tests.ping", trigger_type="cron", cron="0 7 * * *")
    services.schedule(
        actor,
        name="Ping",
        task="notify",
        kwargs={"message": "x", "topic": "t"},
        trigger_type="cron",
        cron="0 7 * * *",
    )
    text = export_jobs(actor, exportable(actor))

    plan = applied(actor, text)

    assert [(step.is_adopted, step.differences) for step in plan.steps] == [(True, [])] * 3
    assert Job.objects.count() == 3
    assert steps_of(planned(actor, text)) == []


def test_export_gives_the_same_file_again(actor):
    applied(actor)
    services.pause(actor, job("Rent").public_id)
    first = export_jobs(actor, exportable(actor, "jobs.yaml"))

    assert steps_of(applied(actor, first)) == []
    assert export_jobs(actor, exportable(actor, "jobs.yaml")) == first
    assert "hunter2" not in first


TEXTS = (
    *("on", "8:30", "1e3", "012", "1_000", "0x1F", "~", "null", " x", "x ", "a\nb", "a \nb\n", "\n"),
    *("é\u2028x", "# x", "- x", "x: y", "'", '"', "2026-12-24", "true", "=", "<<", "1.", ".5", "+1"),
)


def test_texts_survive_an_export(actor):
    kwargs = {"prompt": "x"} | {text: [text, 1, 1.5, True, None, {}] for text in TEXTS}
    JobFactory(owner=actor.user, name="Text", task="prompt", kwargs=kwargs)

    specs, problems = read_jobs([("x", export_jobs(actor, exportable(actor)))], "UTC", NOW)

    assert problems == []
    assert specs[0].columns["kwargs"] == kwargs


def test_masked_secret_of_a_new_job_is_refused_with_its_place(actor):
    plan = planned(actor, FILE.replace("hunter2", masking.MASK))

    assert [str(problem) for problem in plan.problems] == [
        f"jobs.yaml:12:16: Hook: headers.X-Api-Key: write the real value instead of {masking.MASK}"
    ]


def test_unknown_tasks_and_arguments_are_refused_with_their_places(actor):
    wrong = FILE.replace("task: prompt", "task: nothing").replace("topic: olga-phone", "volume: 11")

    plan = planned(actor, wrong)

    places = {str(problem.place): problem.text for problem in plan.problems}
    assert set(places) == {"jobs.yaml:7:16", "jobs.yaml:19:11"}
    assert "volume: unknown argument" in places["jobs.yaml:7:16"]
    assert "Unknown task: nothing" in places["jobs.yaml:19:11"]


def test_quota_refuses_the_whole_file(actor, settings):
    settings.CRONTY_MAX_ACTIVE_JOBS = 3

    refused = apply_plan(actor, planned(actor))

    assert isinstance(refused, Err)
    assert refused.kind == Kind.QUOTA
    assert not Job.objects.exists()


def test_failure_undoes_everything(actor, monkeypatch):
    applied(actor)
    plan = planned(actor, FILE.replace("8:30", "9:15").replace("timeout: 5m", "timeout: 6m"))
    services.edit(actor, job("Hook").public_id, timeout=timedelta(minutes=7))

    refused = apply_plan(actor, plan)

    assert isinstance(refused, Err)
    assert refused.kind == Kind.CONFLICT
    assert job("Stand-up").cron == "30 8 * * 1-5"


def test_job_that_fired_since_the_plan_is_changed_all_the_same(actor):
    applied(actor)
    plan = planned(actor, FILE.replace("8:30", "9:15"))
    Job.objects.filter(name="Stand-up").update(next_run_at=NOW + timedelta(days=3))

    assert apply_plan(actor, plan) == Ok(plan)
    assert (job("Stand-up").cron, has_drifted(job("Stand-up"))) == ("15 9 * * 1-5", False)


def test_new_job_in_the_place_of_an_ended_one_is_made_once(actor):
    applied(actor)
    Job.objects.filter(name="Party").update(status="completed", next_run_at=None)
    plans = [planned(actor, FILE.replace("2026-12-24", "2026-12-31")) for _ in range(2)]

    assert apply_plan(actor, plans[0]) == Ok(plans[0])
    refused = apply_plan(actor, plans[1])

    assert isinstance(refused, Err)
    assert refused.kind == Kind.CONFLICT
    assert Job.objects.filter(name="Party").count() == 2


def test_job_that_another_file_has_taken_over_meanwhile_is_a_conflict(actor):
    JobFactory(owner=actor.user, name="Party", task="tests.ping")
    one, two = planned(actor, source="one.yaml"), planned(actor, source="two.yaml")

    assert apply_plan(actor, one) == Ok(one)
    refused = apply_plan(actor, two)

    assert isinstance(refused, Err)
    assert refused.kind == Kind.CONFLICT
    assert job("Party").source == "one.yaml"


def test_job_that_was_taken_over_meanwhile_is_not_made_again(actor):
    first = planned(actor)
    JobFactory(owner=actor.user, name="Party", task="tests.ping")
    applied(actor)

    refused = apply_plan(actor, first)

    assert isinstance(refused, Err)
    assert refused.kind == Kind.CONFLICT
    assert Job.objects.filter(name="Party").count() == 1


def test_ended_job_is_left_alone_until_its_time_changes(actor):
    applied(actor)
    Job.objects.filter(name="Party").update(status="completed", next_run_at=None)

    assert steps_of(planned(actor)) == []
    plan = applied(actor, FILE.replace("2026-12-24", "2027-12-24"))

    assert [(step.action, step.replaced.name) for step in plan.steps] == [(Action.CREATE, "Party")]
    assert sorted(Job.objects.filter(name="Party").values_list("status", "source")) == [
        ("completed", ""),
        ("pending", "jobs.yaml"),
    ]


def test_moment_in_the_past_is_left_out(actor):
    plan = applied(actor, FILE.replace("2026-12-24", "2025-12-24"))

    assert (plan.count(Action.CREATE), plan.left_out) == (3, ["Party: its time has passed"])
    assert steps_of(planned(actor, FILE.replace("2026-12-24", "2025-12-24"))) == []


def test_number_of_queries_does_not_grow_with_the_jobs(actor, settings, django_assert_max_num_queries):
    settings.CRONTY_MAX_ACTIVE_JOBS, settings.CRONTY_MAX_CREATES_PER_MINUTE = 10_000, 1
    many = "jobs:\n" + "".join(
        f"  Job {number}: {{task: tests.ping, schedule: '{number % 60} 3 * * *'}}\n" for number in range(400)
    )

    # SQLite inserts 16 jobs, or 99 events, in one statement.
    with django_assert_max_num_queries(50):
        applied(actor, many)
    with django_assert_max_num_queries(3):
        planned(actor, many)
    changed = many.replace(" 3 * * *", " 4 * * *").replace("}", ", timeout: 5m}")
    with django_assert_max_num_queries(30):
        applied(actor, changed)
    assert Job.objects.filter(cron__endswith=" 4 * * *", timeout=timedelta(minutes=5)).count() == 400
    assert Event.objects.filter(verb="edit").count() == 400
    Job.objects.update(source="", source_key="", source_digest="")
    with django_assert_max_num_queries(20):
        assert all(step.is_adopted for step in applied(actor, changed).steps)
    assert not any(has_drifted(each) for each in Job.objects.filter(source="jobs.yaml"))
    with django_assert_max_num_queries(50):
        applied(actor, "jobs: {}", prune=True)
    assert Event.objects.filter(verb="delete").count() == 400


@pytest.mark.parametrize("paused", [False, True])
def test_many_edits_leave_the_same_rows_as_single_ones(actor, clock_at_now, paused):
    """Both at a moment when slots are due, and one row of the ledger is from a clock that was ahead."""
    hourly = "jobs:\n" + "".join(f"  {name}: {{task: tests.ping, schedule: '0 * * * *'}}\n" for name in "AB")
    applied(actor, hourly)
    for each in Job.objects.all():
        ExecutionFactory(job=each, scheduled_for=NOW + timedelta(hours=5), status="missed")
        if paused:
            assert isinstance(services.pause(actor, each.public_id, reason="holidays"), Ok)
    clock_at_now.shift(timedelta(hours=3, minutes=10))
    now = clock.now()
    specs, _ = read_jobs([("jobs.yaml", hourly.replace("0 *", "*/5 *"))], "UTC", now)
    plan = make_plan(actor, "jobs.yaml", specs, now)
    first, second = plan.steps
    assert isinstance(services.edit(actor, first.job.public_id, **first.columns), Ok)
    plan.steps = [second]

    assert apply_plan(actor, plan) == Ok(plan)

    rows = [
        Job.objects.values(
            "cron",
            "status",
            "next_run_at",
            "paused_at",
            "runs_per_minute",
            "likeness",
            "revision",
            "updated_at",
        ).get(name=name)
        for name in "AB"
    ]
    assert rows[0] == rows[1]
    ledgers, events = (
        [list(model.objects.filter(job__name=name).order_by(order).values_list(*columns)) for name in "AB"]
        for model, order, columns in [
            (Execution, "scheduled_for", ("scheduled_for", "last_slot", "slots", "status", "reason")),
            (Event, "pk", ("verb", "before", "after", "at", "actor", "door")),
        ]
    )
    assert ledgers[0] == ledgers[1]
    assert [row[2:4] for row in ledgers[0]] == [(3, "skipped")]
    assert events[0][-1] == events[1][-1]


def test_plan_that_waited_for_an_answer_starts_nothing_in_the_past(actor, clock_at_now):
    applied(actor, "jobs: {Old: {task: tests.ping, schedule: '0 3 * * *'}}")
    text = "jobs: {Old: {task: tests.ping, schedule: '* * * * *'}, New: {task: tests.ping, schedule: '* * * * *'}}"
    plan = planned(actor, text)
    clock_at_now.shift(timedelta(minutes=7, seconds=30))

    assert apply_plan(actor, plan) == Ok(plan)

    assert [job(name).next_run_at for name in ("Old", "New")] == [NOW + timedelta(minutes=8)] * 2


REPEATED = "jobs: {{Bins: {{schedule: {schedule}, task: tests.ping}}}}"


@pytest.mark.parametrize(
    "schedule",
    [
        "every 2 weeks on monday at 9:00",
        "every 2 weeks, starting 2026-11-23 09:00",
    ],
)
def test_phrase_of_a_rhythm_means_the_same_whenever_it_is_applied(actor, clock_at_now, schedule):
    applied(actor, REPEATED.format(schedule=f'"{schedule}"'))
    start = Job.objects.get().anchor_at
    clock_at_now.shift(timedelta(days=8))

    plan = planned(actor, REPEATED.format(schedule=f'"{schedule}"'))

    assert (plan.steps, plan.unchanged) == ([], 1)
    assert Job.objects.get().anchor_at == start


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("every 2 weeks on monday at 9:00", "every 2 weeks on tuesday at 9:00"),
        ("every 2 weeks on monday at 9:00", "every 2 weeks, starting 2026-11-30 09:00"),
    ],
)
def test_another_rhythm_is_a_change(actor, before, after):
    applied(actor, REPEATED.format(schedule=f'"{before}"'))

    [step] = planned(actor, REPEATED.format(schedule=f'"{after}"')).steps

    assert step.action is Action.CHANGE


PARTY = "jobs:\n  Party:\n    schedule: 2026-12-24T18:00\n    task: tests.ping\n"
NEXT_PARTY = PARTY.replace("2026", "2027")


def test_deleted_job_that_has_ended_comes_back_as_it_was(actor):
    applied(actor, PARTY)
    Job.objects.update(status="completed", next_run_at=None)
    services.delete(actor, Job.objects.get().public_id)

    applied(actor, PARTY + "    label: Fun\n    paused: true\n")

    job = Job.objects.get()
    assert (job.status, job.deleted_at, job.label) == ("completed", None, "")


@pytest.mark.parametrize("stop", [services.cancel, services.delete])
def test_job_that_comes_back_with_a_time_ahead_is_not_paused(actor, clock_at_now, stop):
    applied(actor, PARTY)
    stop(actor, Job.objects.get().public_id)
    clock_at_now.shift(timedelta(days=60))

    applied(actor, NEXT_PARTY)

    job = Job.objects.get()
    assert (job.status, job.pause_reason, job.next_run_at) == ("pending", "", job.run_at)


def test_job_that_comes_back_without_a_time_ahead_stays_paused(actor, clock_at_now):
    applied(actor, PARTY)
    services.cancel(actor, Job.objects.get().public_id)
    clock_at_now.shift(timedelta(days=60))

    applied(actor, PARTY + "    label: Fun\n")

    assert Job.objects.get().pause_reason == "It came due while the job was stopped."


def test_export_leaves_out_a_job_whose_schedule_cannot_be_read(actor):
    JobFactory(owner=actor.user, name="Fine")
    JobFactory(owner=actor.user, name="Odd", paused=True, timezone="US/Nowhere")

    text = export_jobs(actor, exportable(actor))

    assert "  Fine:\n" in text
    assert "\n# Odd is left out. Its schedule cannot be read: unknown time zone 'US/Nowhere'" in text
    assert planned(actor, text, source="export.yaml").problems == []


def test_end_of_a_job_on_a_day_includes_an_hour_that_clocks_repeat(actor):
    text = PARTY.replace("2026-12-24T18:00", "every day at 18:00") + "    ends_at: 2027-04-03\n"

    applied(actor, f"timezone: America/Santiago\n{text}")

    assert Job.objects.get().ends_at == datetime(2027, 4, 4, 4, tzinfo=UTC) - timedelta(microseconds=1)
    assert "ends_at: '2027-04-03'" in export_jobs(actor, exportable(actor))


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ('"every 2 weeks on friday at 9:00"', '"every 3 weeks on friday at 9:00"', ("days", "09:00")),
        ("{every: 2h, start: 2026-11-20T09:30}", "{every: 3h, start: 2026-11-20T09:30}", ("", "09:30")),
    ],
)
def test_another_interval_keeps_its_start(actor, before, after, kept):
    applied(actor, REPEATED.format(schedule=before))

    applied(actor, REPEATED.format(schedule=after))

    job = Job.objects.get()
    assert job.anchor_at is not None
    assert (job.calendar_unit, f"{job.anchor_at:%H:%M}") == kept
    assert planned(actor, REPEATED.format(schedule=after)).steps == []


def test_token_of_one_family_reads_no_jobs_of_others_through_files(actor):
    applied(actor)
    applied(actor, "jobs: {Secret: {schedule: every day at 9, task: tests.ping}}", source="other.yaml")
    limited = replace(actor, tasks=frozenset({"notify"}))

    plan = planned(limited, "jobs: {Party: {schedule: every day at 9, task: notify}}")

    assert [job.name for job in exportable(limited)] == ["Stand-up"]
    assert exportable(limited, "other.yaml") == []
    assert sources_of(limited) == ["jobs.yaml"]
    assert [job.name for job in plan.unlisted] == ["Stand-up"]
    assert [problem.place.file for problem in plan.problems] == ["jobs.yaml"]
