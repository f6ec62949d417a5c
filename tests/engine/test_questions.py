"""Questions: recorded with the outcome of a run, repeated until somebody answers."""

from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.questions import BATCH, NEXT_RUN, NOT_ASKING
from schedules.models import Execution, Job, Question, Reminder
from schedules.tasks.asking import ReminderStep, read_ask
from tests.engine.conftest import NOW, begin, outcome_of
from tests.factories import ExecutionFactory, JobFactory, reminder_job

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
ASK = "every 10m 2 times then boss"


def ask(cluster, job, *, now=NOW, **fields) -> Execution:
    """Run a job that asks, and settle the run."""
    started = begin(cluster, job, now=now, **fields)
    outcome = outcome_of(started, at=now, question=read_ask(job.kwargs["ask"]))
    engine.settle_runs(cluster.pk, [outcome])
    return Execution.objects.get(pk=started.execution_id)


def send_at(minutes: float) -> list[ReminderStep]:
    """Send what is due so many minutes after the question, and return the new reminders."""
    known = set(Reminder.objects.values_list("pk", flat=True))
    engine.send_reminders(NOW + minutes * MINUTE)
    new = Reminder.objects.exclude(pk__in=known)
    return [ReminderStep(row.number, row.most, row.topic) for row in new]


def state() -> tuple[str, str]:
    question = Question.objects.latest("execution")
    return question.status, question.reason


def test_outcome_that_asks_is_recorded_with_its_first_reminder(cluster):
    run = ask(cluster, reminder_job(ask=ASK))

    question = Question.objects.get(pk=run.pk)
    assert (question.status, question.asked_at, question.due_at) == ("open", NOW, NOW + 10 * MINUTE)


def test_notification_that_asks_once_is_never_repeated(cluster):
    ask(cluster, reminder_job(ask="yes"))

    assert send_at(60 * 24) == []
    assert state() == ("open", "")


def test_outcome_that_does_not_ask_writes_no_question(cluster):
    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, JobFactory()))])

    assert not Question.objects.exists()


def test_reminders_come_until_their_number_is_reached_and_then_go_elsewhere(cluster):
    ask(cluster, reminder_job(ask=ASK))

    sent = [send_at(minutes) for minutes in (9, 10, 15, 20, 30, 40, 60)]

    assert sent == [
        [],
        [ReminderStep(1, 2, "")],
        [],
        [ReminderStep(2, 2, "")],
        [ReminderStep(3, 2, "boss")],
        [],
        [],
    ]
    assert state() == ("open", "")


def test_reminders_are_ledger_rows_of_their_own_that_stand_for_no_slot(cluster):
    job = reminder_job(ask=ASK, max_runs=5, slot_count=1, run_count=1)
    ask(cluster, job)

    send_at(10)

    row = Execution.objects.get(cause="reminder")
    assert (row.status, row.scheduled_for, row.available_at) == (
        "queued",
        NOW + 10 * MINUTE,
        NOW + 10 * MINUTE,
    )
    # The slot of the same moment can still be written.
    ExecutionFactory(job=job, scheduled_for=row.scheduled_for)
    job.refresh_from_db()
    assert (job.slot_count, job.run_count) == (1, 1)


def test_outage_costs_one_reminder_and_not_all_that_were_missed(cluster):
    ask(cluster, reminder_job(ask="every 1m 50 times"))

    assert [len(send_at(minutes)) for minutes in (30, 30.1, 30.4, 30.6)] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "cancelled", "next_run_at": None}, "The job was stopped."),
        ({"deleted_at": NOW}, "The job was deleted."),
        ({"kwargs": {"message": "Tea", "topic": "tea"}}, NOT_ASKING),
        ({"task": "tests.ping", "kwargs": {}}, NOT_ASKING),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_reminders_stop_when_the_job_changes(cluster, change, reason):
    job = reminder_job(ask=ASK)
    ask(cluster, job)
    type(job).objects.filter(pk=job.pk).update(**change)

    assert send_at(10) == []
    assert state() == ("closed", reason)


@pytest.mark.parametrize("status", ["succeeded", "skipped", "missed", "failed", "running"])
def test_reminders_stop_at_the_next_slot_whatever_became_of_it(cluster, status):
    job = reminder_job(ask=ASK)
    ask(cluster, job)
    ExecutionFactory(job=job, scheduled_for=NOW + 5 * MINUTE, status=status)

    assert send_at(10) == []
    assert state() == ("closed", NEXT_RUN)


def test_next_run_that_asks_closes_the_question_before_it(cluster):
    job = reminder_job(ask=ASK)
    first = ask(cluster, job)

    second = ask(cluster, job, now=NOW + 5 * MINUTE)

    assert Question.objects.get(pk=first.pk).reason == NEXT_RUN
    assert Question.objects.get(pk=second.pk).due_at == NOW + 15 * MINUTE


@pytest.mark.parametrize("is_snoozed", [False, True])
def test_reminders_wait_while_the_job_is_paused(cluster, is_snoozed):
    job = reminder_job(ask=ASK, cron="*/5 * * * *", next_run_at=NOW + 5 * MINUTE)
    ask(cluster, job)
    if is_snoozed:
        Question.objects.update(status="snoozed")

    engine.pause_each([job], NOW + MINUTE, "holidays")
    assert send_at(10) == send_at(1000) == []

    engine.rearm_each(list(Job.objects.all()), NOW + 1001 * MINUTE)
    assert Execution.objects.filter(job=job, status="skipped").exists()
    assert send_at(1001) == [ReminderStep(0 if is_snoozed else 1, 2, "")]
    assert state() == ("open", "")


def test_stopped_job_closes_its_question_at_once(cluster):
    job = reminder_job(ask=ASK)
    ask(cluster, job)

    engine.withdraw(job, NOW + MINUTE, "stopped")

    assert state() == ("closed", "The job was stopped.")
    assert Question.objects.get().due_at is None


def test_edited_interval_counts_from_the_next_reminder_on(cluster):
    job = reminder_job(ask="every 10m 5 times")
    ask(cluster, job)
    job.kwargs = {**job.kwargs, "ask": "every 2m 5 times"}
    job.save(update_fields=["kwargs"])

    assert [len(send_at(minutes)) for minutes in (5, 10, 12)] == [0, 1, 1]


def test_snoozed_question_comes_again_without_being_counted(cluster):
    run = ask(cluster, reminder_job(ask="yes"))
    Question.objects.filter(pk=run.pk).update(status="snoozed", due_at=NOW + 30 * MINUTE)

    assert [send_at(minutes) for minutes in (29, 30, 60)] == [[], [ReminderStep(0, 0, "")], []]
    assert state() == ("open", "")


def test_due_reminders_are_sent_in_limited_numbers(cluster, owner):
    runs = [
        ExecutionFactory(job=reminder_job(ask=ASK, owner=owner), scheduled_for=NOW, status="succeeded")
        for _ in range(BATCH + 3)
    ]
    Question.objects.bulk_create(
        Question(execution=run, job=run.job, asked_at=NOW, due_at=NOW) for run in runs
    )

    assert [engine.send_reminders(NOW + MINUTE) for _ in range(3)] == [BATCH, 3, 0]
    assert Reminder.objects.count() == BATCH + 3


def test_question_answered_before_its_outcome_was_written_stays_answered(cluster):
    job = reminder_job(ask=ASK)
    started = begin(cluster, job)
    Question.objects.create(execution_id=started.execution_id, job=job, asked_at=NOW, status="done")

    engine.settle_runs(cluster.pk, [outcome_of(started, question=read_ask(ASK))])

    assert state() == ("done", "")
    assert Question.objects.get().due_at is None


def test_delivered_reminder_tells_nothing_about_how_the_job_is_doing(cluster):
    job = reminder_job(ask=ASK, recent="F", failure_streak=1, last_error="no")
    started = begin(cluster, job, cause="reminder")

    engine.settle_runs(cluster.pk, [outcome_of(started)])

    job.refresh_from_db()
    assert (job.recent, job.failure_streak, job.last_error) == ("F", 1, "no")


def test_failed_reminder_alerts_nobody(cluster, owner):
    owner.cronty_profile.failure_topic = "alarm"
    owner.cronty_profile.save()
    job = reminder_job(ask=ASK, owner=owner)

    engine.settle_runs(cluster.pk, [outcome_of(begin(cluster, job, cause="reminder"), "failed")])

    assert not type(job).objects.notices().exists()


def test_slot_is_not_called_an_overlap_because_a_reminder_is_under_way(cluster):
    job = reminder_job(ask=ASK, next_run_at=NOW)
    ExecutionFactory(job=job, cause="reminder", status="running", scheduled_for=NOW - MINUTE)

    claims = engine.claim_runs(cluster.pk, NOW, 10)

    assert [Execution.objects.get(pk=claim.execution_id).scheduled_for for claim in claims] == [NOW]
