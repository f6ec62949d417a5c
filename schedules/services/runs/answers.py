"""Answers to notifications: mark as done, snooze or skip the next run, by link, page, agent or terminal."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from schedules import clock, engine, limits
from schedules.models import Event, Execution, Job, Question, Reminder
from schedules.models.questions import MAX_ANSWERS
from schedules.result import Code, Err, Ok, Result, invalid, sentence
from schedules.services.people.profiles import is_active_user
from schedules.services.permissions import Actor, actor_of_link, locked_job, not_found, record, wrong_state
from schedules.services.runs.actions import skip
from schedules.tasks.signed_links import AnswerLink, Button
from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.triggers import TriggerError
from schedules.when.zones import short_words

Status = Question.Status

DONE, SNOOZE, SKIP, UNDO = "done", "snooze", "skip", "undo"
ANSWERS = 'Answer "done", "skip", "undo", "snooze" or "snooze 1h".'
MAX_PHRASE_LENGTH = 200
SNOOZE_OF_BUTTON = timedelta(minutes=10)
MAX_SNOOZE = timedelta(days=366)
# The earliest reminder after an answer was taken back.
_AFTER_UNDO = timedelta(minutes=1)
_STATUS_AFTER = {DONE: Status.DONE, SNOOZE: Status.SNOOZED, SKIP: Status.SKIPPED}
_STOPPED = (Job.Status.CANCELLED, Job.Status.PAUSED)


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question after somebody answered it."""

    job: Job
    question: Question
    is_repeated: bool = False
    """Whether the question already had this answer, so that nothing changed."""


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """What a link is about: the job and the run that asked, and its question once it is recorded."""

    link: AnswerLink
    job: Job
    run: Execution
    """The run that asked first; the message with the link may be a reminder of it."""
    actor: Actor
    question: Question | None


def find_linked(link: AnswerLink, actor: Actor | None = None) -> Result[LinkedQuestion]:
    """Return what a link is about, for its owner or for the logged-in actor."""
    reminder = Reminder.objects.select_related("execution__job").filter(pk=link.execution_id).first()
    root_id = reminder.question_id if reminder else link.execution_id
    run = Execution.objects.select_related("job__owner", "question").filter(pk=root_id).first()
    sent = reminder.execution if reminder else run
    if sent is None or run is None or run.job is None or not link.is_about(sent.key):
        return Err(Code.LINK_UNKNOWN)
    if run.job.deleted_at:
        return not_found(run.job.public_id)
    if not is_active_user(run.job.owner):
        return Err(Code.JOB_OWNER_INACTIVE, run.job.public_id)
    answering = actor_of_link(run.job, _reader_of(run.job, reminder)[: limits.ACTOR_LENGTH], actor)
    return Ok(LinkedQuestion(link, run.job, run, answering, getattr(run, "question", None)))


def _reader_of(job: Job, reminder: Reminder | None) -> str:
    """Name those who got the message by its topic or channel."""
    place = reminder.topic if reminder else ""
    channel = limits.channel_in(place) if place else job.argument("channel")
    return f"channel: {channel}" if channel else f"ntfy: {place or job.argument('topic') or ''}"


def answer_by_link(
    linked: LinkedQuestion, answer: str, until: datetime | None = None, *, seen: int | None = None
) -> Result[AnsweredQuestion]:
    """Give the answer of a button, or one chosen on a page that showed `seen` earlier answers."""
    button, job_id = linked.link.button, linked.job.public_id
    if button is Button.PAGE:
        return _answer(linked.actor, job_id, linked.run.pk, answer, until, seen=seen or 0)
    if answer != button:
        return Err(Code.LINK_UNKNOWN)
    return _answer(linked.actor, job_id, linked.run.pk, answer, until, link=linked.link.name)


def answer(actor: Actor, job_id: str, answer: str, until: datetime | None = None) -> Result[AnsweredQuestion]:
    """Answer the last question of a job, or take the last answer back."""
    job = actor.jobs().find(job_id)
    if job is None:
        return not_found(job_id)
    question = latest_question(job)
    if question is None:
        return Err(Code.NOTHING_ASKED, job_id)
    return _answer(actor, job_id, question.pk, answer, until)


def answer_in_words(actor: Actor, job_id: str, text: str) -> Result[AnsweredQuestion]:
    """Give an answer as people type it: "done", "skip", "undo", or "snooze", perhaps with a time or a duration."""
    kind, _, until = text.strip().partition(" ")
    kind = kind.lower()
    job = actor.jobs().find(job_id)
    if job is None:
        return not_found(job_id)
    if kind not in (DONE, SNOOZE, SKIP, UNDO) or (until and kind != SNOOZE):
        return invalid("answer", ANSWERS)
    if not until:
        return answer(actor, job_id, kind)
    moment = read_until(until, job.timezone)
    return moment if isinstance(moment, Err) else answer(actor, job_id, kind, moment.value)


def read_until(text: str, timezone: str) -> Result[datetime]:
    """Parse until when a reminder is snoozed, in its job's time zone."""
    try:
        phrase = text.strip()[:MAX_PHRASE_LENGTH]
        return Ok(parse_moment(phrase, now=clock.now(), timezone=timezone, may_be_day=True))
    except (PhraseError, TriggerError) as error:
        return invalid("until", sentence(str(error)))


def latest_question(job: Job) -> Question | None:
    return Question.objects.filter(job=job).order_by("-pk").first()


def is_last_answer(event: Event) -> bool:
    """Return whether this event recorded the last answer to its job's last question."""
    question = latest_question(event.job) if event.job and event.job.deleted_at is None else None
    if question is None or question.pk != event.after.get("execution") or not question.answers:
        return False
    last = question.answers[-1]
    return last["answer"] != UNDO and datetime.fromisoformat(last["at"]) == event.at


def question_of(run: Execution) -> Question | None:
    """Return the question that a run asked or repeated, with the reminders sent, or None."""
    if run.task != "notify":
        return None
    questions = Question.objects.select_related("execution").prefetch_related("sent__execution")
    return questions.filter(pk=run.pk).first() or questions.filter(sent=run.pk).first()


def snooze_problem(until: datetime | None, now: datetime) -> Err | None:
    """Return what is wrong with the end of a snooze."""
    if until is None:
        return None
    if problem := limits.moment_problem(until):
        return invalid("until", problem)
    if until <= now:
        return invalid("until", "Choose a time in the future.")
    return invalid("until", "Choose a time within a year.") if until > now + MAX_SNOOZE else None


def _answer(
    actor: Actor,
    job_id: str,
    run_id: int,
    answer: str,
    until: datetime | None,
    *,
    link: str = "",
    seen: int | None = None,
) -> Result[AnsweredQuestion]:
    now = clock.now()
    if problem := snooze_problem(until, now):
        return problem
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        question = _locked_question(job, run_id, now)
        if question.status == _STATUS_AFTER.get(answer) and answer != SNOOZE:
            return Ok(AnsweredQuestion(job, question, is_repeated=True))
        result: Result[AnsweredQuestion]
        if seen is not None and question.revision != seen:
            result = Err(Code.ANSWERED_MEANWHILE, job_id)
        elif link and any(earlier["link"] == link for earlier in question.answers):
            result = _refuse(Code.LINK_USED, job, question)
        elif refusal := _refusal(job, question, answer):
            result = refusal
        elif answer == UNDO:
            result = _take_back(actor, job, question, now)
        else:
            result = _apply(actor, job, question, answer, until or now + SNOOZE_OF_BUTTON, link, now)
        if isinstance(result, Err):
            # Otherwise a question created here before its worker recorded it would remain without reminders.
            transaction.set_rollback(True)
    return result


def _locked_question(job: Job, run_id: int, now: datetime) -> Question:
    """Lock a question, and create it if somebody answers before the worker has recorded it."""
    locked = Question.objects.select_for_update()
    if existing := locked.filter(pk=run_id).first():
        return existing
    row = Question(pk=run_id, job=job, asked_at=now)
    Question.objects.bulk_create([row], ignore_conflicts=True)
    return locked.get(pk=run_id)


def _refusal(job: Job, question: Question, answer: str) -> Err | None:
    """Return why this answer is not possible now."""
    if answer == UNDO:
        can_undo = question.answers and question.answers[-1]["answer"] != UNDO
        return None if can_undo else Err(Code.NO_ANSWER_TO_UNDO, job.public_id)
    if question.revision >= MAX_ANSWERS:
        return Err(Code.TOO_MANY_ANSWERS, limit=MAX_ANSWERS)
    if question.status in Question.ANSWERED:
        return _refuse(Code.ALREADY_ANSWERED, job, question)
    if answer == SNOOZE and job.status in _STOPPED:
        return wrong_state(job)
    if answer == SNOOZE and question.status == Status.CLOSED:
        return Err(Code.QUESTION_CLOSED, job.public_id, reason=question.reason)
    return None


def _refuse(code: Code, job: Job, question: Question) -> Err:
    """Build a refusal that says what the first answer was."""
    at = question.answered_at
    return Err(
        code,
        job.public_id,
        state=question.status,
        reason=question.answered_by,
        until=short_words(at, job.timezone) if at else "",
    )


def _apply(
    actor: Actor, job: Job, question: Question, answer: str, until: datetime, link: str, now: datetime
) -> Result[AnsweredQuestion]:
    before = {
        "status": question.status,
        "due_at": question.due_at.isoformat() if question.due_at else None,
        "reason": question.reason,
        "answered_at": question.answered_at.isoformat() if question.answered_at else None,
        "answered_by": question.answered_by,
    }
    skipped: list[str] = []
    if answer == SKIP:
        match skip(actor, job.public_id):
            case Ok(changed):
                skipped = [entry for entry in changed.skips.split() if entry not in job.skips.split()]
            case refusal:
                return refusal
    answer_record = {
        "answer": answer,
        "at": now.isoformat(),
        "by": actor.label,
        "door": actor.door,
        "until": until.isoformat() if answer == SNOOZE else None,
        "skipped": skipped,
        "link": link,
        "before": before,
    }
    question.status, question.reason = _STATUS_AFTER[answer], ""
    question.due_at = until if answer == SNOOZE else None
    question.answered_at, question.answered_by = now, actor.label
    question.answers = [*question.answers, answer_record]
    _save(question)
    engine.withdraw_reminders(question, now, f"Answered by {actor.label}.")
    after = {"answer": answer, "execution": question.pk}
    if answer == SNOOZE:
        after["until"] = until.isoformat()
    record(actor, "answer", now, job=job, before={}, after=after)
    return Ok(AnsweredQuestion(job, question))


def _take_back(actor: Actor, job: Job, question: Question, now: datetime) -> Result[AnsweredQuestion]:
    """Restore the question as it was before its last answer."""
    last: dict[str, Any] = question.answers[-1]
    if last["skipped"]:
        slots = [datetime.fromisoformat(entry) for entry in last["skipped"]]
        undone = skip(actor, job.public_id, slots=[slot for slot in slots if slot > now], undo=True)
        if isinstance(undone, Err) and any(slot > now for slot in slots):
            return undone
    before: dict[str, Any] = last["before"]
    due = datetime.fromisoformat(before["due_at"]) if before["due_at"] else None
    question.status, question.reason = before["status"], before["reason"]
    question.due_at = max(due, now + _AFTER_UNDO) if due else None
    answered_at = before["answered_at"]
    question.answered_at = datetime.fromisoformat(answered_at) if answered_at else None
    question.answered_by = before["answered_by"]
    question.answers = [
        *question.answers,
        {"answer": UNDO, "at": now.isoformat(), "by": actor.label, "door": actor.door, "link": ""},
    ]
    _save(question)
    record(
        actor,
        "answer",
        now,
        job=job,
        before={"answer": last["answer"]},
        after={"answer": UNDO, "execution": question.pk},
    )
    return Ok(AnsweredQuestion(job, question))


def _save(question: Question) -> None:
    question.save(update_fields=["status", "reason", "due_at", "answered_at", "answered_by", "answers"])
