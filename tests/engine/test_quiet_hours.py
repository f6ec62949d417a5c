"""Quiet hours: notifications are held, sent once when they end, and neither lost nor doubled."""

from datetime import timedelta

import pytest
import time_machine

from schedules import engine, services
from schedules.engine.notices import LABEL, deliver_answers
from schedules.models import Cluster, Execution, Job, Profile, Question, Reminder
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.standings import standings_of
from schedules.result import Ok
from schedules.services.runs.explanations import explain
from schedules.tasks.asking import read_ask
from tests.engine.conftest import NOW, begin, new_cluster, outcome_of
from tests.factories import ExecutionFactory, JobFactory, reminder_job

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
EVENING = NOW.replace(hour=23)
# 06:00 UTC is 07:00 in Berlin.
MORNING = NOW.replace(day=5, hour=6)
HELD = "Held until 07:00 by quiet hours."
OTHERS = "Quiet hours: one message for several runs is sent at 07:00."


@pytest.fixture(autouse=True)
def at_night(owner):
    Profile.objects.filter(user=owner).update(quiet_hours="22:00-07:00", timezone="Europe/Berlin")


def notification(owner, **fields):
    kwargs = {"message": "Tea", "topic": "tea"}
    defaults = {"task": "notify", "kwargs": kwargs, "cron": "0 * * * *", "timezone": "UTC"}
    return JobFactory(owner=owner, **defaults | {"next_run_at": EVENING, "created_at": NOW} | fields)


def ledger_of(job):
    rows = Execution.objects.filter(job=job).order_by("scheduled_for")
    return [(row.status, row.scheduled_for, row.reason) for row in rows]


def claim(cluster, at):
    return [claim.execution_id for claim in engine.claim_runs(cluster.pk, at, 50)]


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
@pytest.mark.parametrize("catch_up", ["none", "all"])
def test_several_runs_at_night_are_one_message_in_the_morning(cluster, owner, overlap, catch_up):
    job = notification(owner, overlap=overlap, catch_up=catch_up)

    assert [claim(cluster, EVENING + hours * HOUR) for hours in range(7)] == [[]] * 7

    first, *others = ledger_of(job)
    assert first == ("queued", EVENING, HELD)
    assert others == [("skipped", EVENING + hours * HOUR, OTHERS) for hours in range(1, 7)]
    held = Execution.objects.get(status="queued")
    assert held.available_at == MORNING
    # Another cluster may start meanwhile; then the message is sent once, even if some minutes late.
    Cluster.objects.all().delete()
    assert claim(new_cluster(), MORNING + 5 * MINUTE)[0] == held.pk


def test_message_that_was_held_says_so_in_the_ledger_and_was_not_late(cluster, owner):
    job = notification(owner, cron="", once=True, run_at=EVENING)
    claim(cluster, EVENING)
    job.refresh_from_db()
    assert standings_of([job], EVENING)[job.pk].name == "waiting"
    assert job.waits_to_start(EVENING)
    assert services.jobs_yet_to_start(services.Actor(owner, "mcp"), EVENING) == [job.pk]

    [held] = claim(cluster, MORNING)
    [started] = engine.start_runs(cluster.pk, 0, [held], MORNING)
    engine.settle_runs(cluster.pk, [outcome_of(started, at=MORNING)._replace(lateness=7 * HOUR)])

    row = Execution.objects.get()
    assert (row.status, row.reason, row.lateness) == ("succeeded", HELD, None)
    assert explain(row) == f"Succeeded on the first attempt. {HELD}"
    job.refresh_from_db()
    assert job.status == "completed"


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({}, NOW.replace(hour=12)),
        ({"task": "tests.ping", "kwargs": {}}, EVENING),
        ({"public_id": f"{NOTICE_PREFIX}_1_1"}, EVENING),
        ({"urgent": True}, EVENING),
    ],
    ids=["by day", "another task", "an alert", "urgent"],
)
def test_all_else_runs_at_its_time(cluster, owner, fields, at):
    notification(owner, next_run_at=at, **fields)

    assert len(claim(cluster, at)) == 1


@pytest.mark.parametrize(("cause", "starts"), [("manual", True), ("trigger", False), ("after", False)])
def test_only_what_a_person_starts_by_hand_is_sent_at_night(cluster, owner, cause, starts):
    row = ExecutionFactory(
        job=notification(owner, next_run_at=MORNING + HOUR),
        status="queued",
        cause=cause,
        scheduled_for=EVENING,
        available_at=EVENING,
        finished_at=None,
    )

    assert claim(cluster, EVENING) == ([row.pk] if starts else [])
    if not starts:
        assert claim(cluster, MORNING) == [row.pk]


def test_runs_with_values_of_their_own_are_all_sent_and_others_once(cluster, owner):
    job = notification(owner, next_run_at=MORNING + HOUR)
    own, same = {"trigger": {"body": "disk full"}}, {"depth": 0}
    rows = [
        ExecutionFactory(
            job=job,
            status="queued",
            cause="trigger",
            scheduled_for=EVENING + number * MINUTE,
            available_at=EVENING,
            finished_at=None,
            given=given,
        )
        for number, given in enumerate([own, own, same, same])
    ]

    assert claim(cluster, EVENING) == []

    assert [Execution.objects.get(pk=row.pk).status for row in rows] == [
        "queued",
        "queued",
        "skipped",
        "skipped",
    ]
    # They become ready at the same moment, so any order is right.
    assert sorted(claim(cluster, MORNING)) == [row.pk for row in rows[:2]]


def test_message_that_is_held_can_be_called_off(cluster, owner):
    job = notification(owner, cron="", once=True, run_at=EVENING)
    claim(cluster, EVENING)

    with time_machine.travel(EVENING, tick=False):
        result = services.cancel(services.Actor(owner, "mcp"), job.public_id, only=(Job.Status.PENDING,))

    assert isinstance(result, Ok)
    assert ledger_of(job) == [("cancelled", EVENING, "The job was stopped before this run.")]
    assert claim(cluster, MORNING) == []


def test_held_run_follows_changed_quiet_hours(cluster, owner):
    job = notification(owner)
    claim(cluster, EVENING)

    Profile.objects.update(quiet_hours="22:00-08:00")
    assert claim(cluster, MORNING) == []
    Profile.objects.update(quiet_hours="")
    engine.release_held(owner.pk, MORNING)

    assert len(claim(cluster, MORNING)) == 1
    assert ledger_of(job)[0][2] == "Held until 08:00 by quiet hours."


def test_reminders_wait_for_the_morning_and_a_snooze_does_not(cluster, owner):
    job = reminder_job(ask="every 10m 5 times", owner=owner, cron="0 12 * * *", next_run_at=NOW + 48 * HOUR)
    run = begin(cluster, job, now=EVENING.replace(hour=20, minute=55))
    asked_at = EVENING.replace(hour=20, minute=55)
    ask = read_ask("every 10m 5 times")
    engine.settle_runs(cluster.pk, [outcome_of(run, at=asked_at, question=ask)])

    # 21:05 UTC is 22:05 in Berlin.
    assert Question.objects.get().due_at == MORNING
    Question.objects.update(due_at=EVENING)
    engine.send_reminders(EVENING)
    assert (Question.objects.get().due_at, Question.objects.get().reminders) == (MORNING, 0)

    Question.objects.update(due_at=EVENING, status="snoozed")
    engine.send_reminders(EVENING)
    assert Reminder.objects.count() == 1
    assert Question.objects.get().due_at == MORNING
    assert len(claim(cluster, EVENING)) == 1


@pytest.mark.parametrize(("cause", "at"), [("schedule", MORNING), ("manual", EVENING)])
def test_answer_of_an_agent_waits_unless_somebody_started_the_run(cluster, owner, cause, at):
    job = JobFactory(owner=owner, task="prompt", kwargs={"prompt": "Hi"}, next_run_at=MORNING)
    run = begin(cluster, job, now=EVENING, cause=cause)

    deliver_answers([outcome_of(run, at=EVENING, result="Done", deliver_to="phone")], EVENING)

    assert Job.objects.get(label=LABEL).next_run_at == at
