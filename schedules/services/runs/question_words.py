"""Describe the state of a question in one or two sentences, for pages, agents and the terminal."""

from datetime import datetime

from schedules import engine
from schedules.models import Job, Question
from schedules.services.runs.answers import latest_question
from schedules.tasks.asking import place_words
from schedules.when import durations
from schedules.when.zones import short_words

Status = Question.Status

_WAITS = " Reminders go on when the job is resumed."


def describe_question(question: Question, job: Job) -> str:
    """Say who answered and after how long, or what comes next."""
    is_paused = job.status == Job.Status.PAUSED
    match question.status:
        case Status.DONE:
            return f"Done by {question.answered_by}, {_after(question)}."
        case Status.SKIPPED:
            return f"Next run left out by {question.answered_by}, {_after(question)}."
        case Status.SNOOZED:
            until = _moment(question.due_at, job)
            return f"Snoozed by {question.answered_by} until {until}.{_WAITS if is_paused else ''}"
        case Status.CLOSED:
            return f"Not answered{_reminded(question)}. {question.reason}"
    sentence = f"Waiting for an answer since {_moment(question.asked_at, job)}{_reminded(question)}."
    if question.due_at is None:
        return sentence
    if is_paused:
        return f"{sentence}{_WAITS}"
    ask = engine.asked_by(job)
    number = question.reminders + 1
    step = f"reminder {number} of {ask.times}" if ask and number <= ask.times else "a reminder"
    if ask and ask.then and number > ask.times:
        step = f"a message to {place_words(ask.then)}"
    return f"{sentence} Next: {step} at {_moment(question.due_at, job)}."


def reminder_words(job: Job) -> str:
    """Describe the last question of a job; empty if there is none."""
    question = last_reminder(job)
    return describe_question(question, job) if question else ""


def last_reminder(job: Job) -> Question | None:
    """Return the last question of a job, or None."""
    return latest_question(job) if job.task == "notify" else None


def _reminded(question: Question) -> str:
    count = question.reminders
    return f", after {count} reminder{'' if count == 1 else 's'}" if count else ""


def _after(question: Question) -> str:
    return f"after {durations.short(question.took)}" if question.took is not None else "at once"


def _moment(moment: datetime | None, job: Job) -> str:
    return short_words(moment, job.timezone) if moment else "now"
