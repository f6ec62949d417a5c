"""Error messages of the pages and the admin for each refusal of a service."""

from collections.abc import Mapping

from django.forms import BaseForm

from schedules.result import Code, Err, Kind, sentence

_MESSAGES: Mapping[Code, str] = {
    Code.INVALID: "{0.reasons}",
    Code.TOO_FAR: "{0.reasons}",
    Code.JOB_NOT_FOUND: "This job no longer exists.",
    Code.JOB_READ_ONLY: "You may look at this job, but not change it.",
    Code.JOB_PROTECTED: "Cronty needs this job: it cannot be edited, stopped or deleted.",
    Code.JOB_ALREADY_PENDING: "This job is active already.",
    Code.JOB_ALREADY_PAUSED: "This job is paused already.",
    Code.JOB_ALREADY_RUNNING: "The last run of this job is still under way.",
    Code.JOB_ALREADY_COMPLETED: "This job has already finished.",
    Code.JOB_ALREADY_FAILED: "This job has already failed.",
    Code.JOB_ALREADY_CANCELLED: "This job was stopped permanently.",
    Code.JOB_NOT_PAUSED: "This job isn't paused.",
    Code.JOB_STOPPED_AGAIN: "Job was stopped again since then.",
    Code.JOB_RUNS_ONCE: "Job runs only once. Cancel it, or change its time.",
    Code.JOB_HAS_NO_NEXT_RUN: "This job has no next run.",
    Code.JOB_RUNS_ELSEWHERE: "This job runs elsewhere: only its pings count as runs.",
    Code.JOB_CHANGED: "Somebody else changed this job meanwhile. Read it again, then edit.",
    Code.JOB_FIRES_TOO_OFTEN: "This job fires all the time. Try again, or pause it first.",
    Code.JOB_NAME_AMBIGUOUS: "Several jobs are called {0.subject}. Choose one of them from the list.",
    Code.JOB_UNCONFIRMED: "This job waits for your confirmation. Confirm it first.",
    Code.JOB_NOT_PROPOSED: "This job waits for no confirmation any more.",
    Code.JOB_TIME_PASSED: (
        "Its time passed before anybody confirmed it, so it did not run. Change its schedule, or discard it."
    ),
    Code.JOB_RUN_UNDER_WAY: (
        "A run that was started by hand is under way. Change the job when it has ended."
    ),
    Code.RUN_NEEDS_CONFIRMATION: "A person confirms what this token runs: schedule it as a job.",
    Code.IDEMPOTENCY_KEY_REUSED: "The key {0.subject} was used for another request. Choose a new one.",
    Code.IDEMPOTENCY_KEY_OF_DELETED_JOB: "The job with the key {0.subject} was deleted. Choose a new key.",
    Code.TOO_MANY_MATCHES: "More than {0.limit:,} jobs match. Choose fewer.",
    Code.JOB_CHANGED_AGAIN: "Changed again since then.",
    Code.RUN_NOT_FOUND: "This run no longer exists.",
    Code.RUN_NOT_RUNNING: "This run has already ended.",
    Code.PROMPT_NOT_FOUND: "This prompt is no longer in the inbox.",
    Code.PROMPT_ANSWERED: "This prompt was already answered.",
    Code.PROMPT_DISMISSED: "This prompt was already dismissed.",
    Code.PROMPT_NOT_WAITING: "Prompt already {0.state}.",
    Code.PROMPT_NOT_LEASED: "No agent holds this prompt any more.",
    Code.PROMPT_HELD_BY_ANOTHER: "An agent holds this prompt until {0.until}.",
    Code.PROMPT_NOT_HELD: "This agent does not hold the prompt.",
    Code.PROMPT_LEASE_OVER: "The lease of this agent on the prompt is over.",
    Code.PROMPT_COUNT_OUT_OF_RANGE: "Choose 1 to {0.limit} prompts.",
    Code.PROMPT_ERROR_TOO_LONG: "Too long.",
    Code.NOTHING_ASKED: "No notification of this job has asked for an answer yet.",
    Code.ALREADY_ANSWERED: "Answered already: {0.state} ({0.reason}, {0.until}).",
    Code.ANSWERED_MEANWHILE: "Somebody has answered meanwhile. This is how it stands now.",
    Code.QUESTION_CLOSED: "No more reminders are sent. {0.reason}",
    Code.LINK_USED: "This button was used before. Open the notification to choose again.",
    Code.LINK_UNKNOWN: "This link is not valid, or its notification was deleted.",
    Code.LINK_EXPIRED: "This link has expired: links are valid for seven days.",
    Code.TOO_MANY_ANSWERS: "This notification was answered {0.limit} times. Open the job to change its reminders.",
    Code.NO_ANSWER_TO_UNDO: "There is no answer to undo.",
    Code.TOKEN_NOT_FOUND: "This token no longer exists.",
    Code.SECRET_NOT_FOUND: "The secret {0.subject} no longer exists.",
    Code.CALENDAR_NOT_FOUND: "The calendar {0.subject} no longer exists.",
    Code.INCIDENT_NOT_FOUND: "There is no such alert.",
    Code.INCIDENT_OVER: "That is over already.",
    Code.CALENDAR_IN_USE: "Jobs use {0.subject}: {0.listed_matches}. Take it out of them first.",
    Code.CHANNEL_NOT_FOUND: "The channel {0.subject} no longer exists.",
}


_STATUSES = {
    Kind.NOT_FOUND: 404,
    Kind.FORBIDDEN: 403,
    Kind.INVALID: 422,
    Kind.QUOTA: 429,
    Kind.TOO_FAST: 429,
}


def status_of(problem: Err) -> int:
    """Return the HTTP status of a refusal."""
    return 410 if problem.code == Code.LINK_EXPIRED else _STATUSES.get(problem.kind, 409)


def message_of(problem: Err) -> str:
    """Return the error message for a refusal, in full sentences."""
    return sentence(_MESSAGES.get(problem.code, problem.code.text).format(problem))


def add_errors(form: BaseForm, problem: Err, *, fields: Mapping[str, str] | None = None) -> None:
    """Show a refusal at the form fields it concerns, or above the whole form.

    `fields` maps columns to form fields where their names differ.
    """
    for column, reasons in problem.errors.items():
        field = (fields or {}).get(column, column)
        form.add_error(field if field in form.fields else None, list(reasons))
    if not problem.errors:
        form.add_error(None, message_of(problem))
