"""Questions that notifications ask: record them when a run ends, and send reminders until somebody answers.

Pending questions are in a small index by due time, so that thousands of them cost the scheduler one query.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef

from schedules.engine.gaps import PAUSED
from schedules.engine.history import Outcome, release_next
from schedules.engine.quiet_hours import QuietHours, quiet_hours_of
from schedules.models import Execution, Job, Question, Reminder
from schedules.tasks.asking import Ask, ReminderStep, read_ask

Status = Question.Status

# How many reminders one step sends.
BATCH = 200
NEXT_RUN = "The next run came."
NOT_ASKING = "The job was changed and no longer asks."
_CHANGED = ("status", "reason", "due_at", "reminders")


def add_questions(outcomes: Sequence[Outcome]) -> None:
    """Record the questions of these runs, and close the older questions of their jobs.

    A question may exist already: a quick reader may answer before the outcome is written.
    """
    asked = [(outcome, outcome.question) for outcome in outcomes if outcome.question]
    quiet = quiet_hours_of({outcome.job_id for outcome, ask in asked if ask.every})
    rows = [
        Question(
            execution_id=outcome.execution_id,
            job_id=outcome.job_id,
            asked_at=outcome.finished_at,
            due_at=_after_quiet_hours(quiet.get(outcome.job_id), outcome.finished_at + ask.every)
            if ask.every
            else None,
        )
        for outcome, ask in asked
    ]
    Question.objects.bulk_create(rows, ignore_conflicts=True)
    older = Question.objects.filter(job__in={row.job_id for row in rows}, status__in=Question.PENDING)
    older.exclude(pk__in=[row.pk for row in rows]).update(status=Status.CLOSED, reason=NEXT_RUN, due_at=None)


def close_questions(job_ids: Collection[int], done: str) -> None:
    """Stop the reminders of these jobs; `done` says what happened to the jobs."""
    reminded = Question.objects.filter(job__in=job_ids, due_at__isnull=False)
    reminded.update(status=Status.CLOSED, reason=f"The job was {done}.", due_at=None)


def asked_by(job: Job) -> Ask | None:
    """Return the question that the notification of a job asks, or None."""
    text = job.argument("ask") if job.task == "notify" else None
    try:
        return read_ask(text) if isinstance(text, str) else None
    except ValueError:
        # Other code stored an invalid value: the run fails and says so.
        return None


def read_reminder(execution_id: int) -> ReminderStep | None:
    row = Reminder.objects.filter(pk=execution_id).first()
    return ReminderStep(row.number, row.most, row.topic) if row else None


def send_reminders(now: datetime) -> int:
    """Queue the reminders that are due, a limited number at a time; return how many questions were checked."""
    # A paused job asks on when it is resumed.
    due = Question.objects.filter(due_at__lte=now).exclude(job__status=Job.Status.PAUSED).order_by("due_at")
    if not due.exists():
        return 0
    with transaction.atomic():
        later = (
            Execution.objects.filter(
                job=OuterRef("job"), scheduled_for__gt=OuterRef("execution__scheduled_for")
            )
            .exclude(cause=Execution.Cause.REMINDER)
            .exclude(status=Execution.Status.SKIPPED, reason__startswith=PAUSED)
        )
        questions = list(
            due.annotate(has_later_run=Exists(later))
            .select_related("job")
            .select_for_update(skip_locked=True, of=("self",))[:BATCH]
        )
        quiet = quiet_hours_of({question.job_id for question in questions if question.job_id})
        steps = [
            (question, _next_step(question, now, quiet.get(question.job_id or 0))) for question in questions
        ]
        sent = [(question, step) for question, step in steps if step is not None]
        runs = Execution.objects.bulk_create(
            Execution.of(question.job, step.at, available_at=now, cause=Execution.Cause.REMINDER)
            for question, step in sent
        )
        Reminder.objects.bulk_create(
            Reminder(execution_id=run.pk, question=question, **step.again._asdict())
            for run, (question, step) in zip(runs, sent, strict=True)
        )
        Question.objects.bulk_update(questions, _CHANGED)
    return len(questions)


class _Step(NamedTuple):
    """A reminder to send, and when it was due."""

    at: datetime
    again: ReminderStep


def _after_quiet_hours(quiet: QuietHours | None, moment: datetime) -> datetime:
    return (quiet and quiet.until(moment)) or moment


def _next_step(question: Question, now: datetime, quiet: QuietHours | None) -> _Step | None:
    """Plan the next reminder of a due question, and return the one to send now, if any."""
    at, question.due_at = question.due_at or now, None
    job = question.job
    if reason := _reason_to_close(question, job):
        question.status, question.reason = Status.CLOSED, reason
        return None
    assert job is not None
    ask = asked_by(job) or Ask()
    number = 0
    # A snooze is asked for, so its reminder comes at any hour.
    if question.status != Status.SNOOZED and quiet and (until := quiet.until(now)):
        question.due_at = until
        return None
    if question.status == Status.SNOOZED:
        question.status = Status.OPEN
    elif question.reminders < ask.steps:
        question.reminders += 1
        number = question.reminders
    else:
        # The job was changed and asks less often now.
        return None
    if ask.every and question.reminders < ask.steps:
        # After an outage, do not send all the missed reminders.
        question.due_at = _after_quiet_hours(quiet, max(at + ask.every, now + ask.every / 2))
    topic = ask.then if number > ask.times else ""
    return _Step(at, ReminderStep(number, ask.times, topic))


def _reason_to_close(question: Question, job: Job | None) -> str:
    if job is None or job.deleted_at:
        return "The job was deleted."
    if job.status == Job.Status.CANCELLED:
        return "The job was stopped."
    if question.has_later_run:  # type: ignore[attr-defined]
        return NEXT_RUN
    return "" if job.task == "notify" and job.argument("ask") else NOT_ASKING


def withdraw_reminders(question: Question, now: datetime, reason: str) -> None:
    """Call off the reminders of a question that have not started; the caller has locked the job."""
    unstarted = Execution.objects.live().filter(
        job=question.job_id, pk__in=question.sent.values("pk"), status=Execution.Status.QUEUED
    )
    count = unstarted.update(
        status=Execution.Status.CANCELLED, finished_at=now, available_at=None, reason=reason
    )
    if count and question.job_id:
        release_next([question.job_id], now)
