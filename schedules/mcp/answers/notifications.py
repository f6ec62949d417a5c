"""Answers of the notification tools: schedules, lists and refusals."""

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers import refusals
from schedules.models import Job
from schedules.models.job_table import Argument, NotificationTopic
from schedules.models.jobs import JobQuerySet, argument_of
from schedules.result import Code, Err, Kind
from schedules.services.jobs.forecasts import WORDS_COLUMNS, shown_next_run, words_of
from schedules.services.people.channels import PREFIX
from schedules.tasks.interface import Final, RetryLater

NOT_FOUND = "Schedule not found: {id}. It may have already been deleted or the ID is incorrect."


class RefusedOut(refusals.WaitOut):
    """The reason for a refusal, and what the notification server said, which is data."""

    success: bool
    schedule_id: NotRequired[str]
    error: str
    hint: NotRequired[str]
    error_from_receiver: NotRequired[str]


class SentOut(TypedDict):
    """The notification was sent."""

    success: bool
    id: str | None
    confirmation: str
    warning: NotRequired[str]


class LaterOut(answers.ScheduleOut, answers.AdviceOut):
    """A one-off notification that is scheduled."""

    success: bool
    message_id: str
    scheduled_time: str | None
    delay: str | None
    notification_topic: str
    confirmation: str


class CronOut(answers.ScheduleOut, answers.AdviceOut):
    """A repeating notification."""

    success: bool
    schedule_id: str
    cron: str | None
    notification_topic: str
    label: str | None
    confirmation: str


class ListedOut(TypedDict):
    """One schedule; a one-off has scheduled_time instead of cron_expression."""

    schedule_id: str
    cron_expression: NotRequired[str]
    scheduled_time: NotRequired[str]
    description: str
    timezone: str
    notification_topic: str | None
    label: str | None
    paused: bool
    next_occurrence: str | None
    last_occurrence: str | None
    notification_body: str


class ListOut(TypedDict):
    """One page of scheduled notifications, the number of all matching ones, and the offset of the next page."""

    schedules: list[ListedOut]
    count: int
    next_offset: NotRequired[int]
    note: NotRequired[str]


class ChangedOut(TypedDict):
    """The schedule after the change."""

    success: bool
    schedule_id: str
    paused: NotRequired[bool]
    confirmation: str
    undo: NotRequired[str]


class TimeOut(TypedDict):
    """One moment, in UTC and in the zone."""

    utc: str
    date: str
    time: str
    timezone: str
    local: str
    user_timezone: str | None


def refusal_of(error: Err, request: Mapping[str, Any]) -> RefusedOut:
    """Turn an error into the answer of a notification tool, with the id of the request."""
    out = failed(_error_message(error, request), request.get("schedule_id"))
    if error.kind == Kind.NOT_FOUND:
        hint = refusals.did_you_mean(request.get("schedule_id"))
        out |= {"hint": hint} if hint else {}
    if "timezone" in error.errors:
        out["hint"] = answers.line(refusals.first_problem(error)[1], 300)
    return refusals.with_wait(out, error)


def failed(message: str, schedule_id: str | None = None) -> RefusedOut:
    """Return an error message as the answer of a notification tool."""
    out: RefusedOut = {"success": False, "error": message}
    if schedule_id is not None:
        out["schedule_id"] = answers.line(schedule_id, 200)
    return out


def server_refusal_of(error: Final | RetryLater) -> RefusedOut:
    """Say why a notification was not sent; what its server said is in a separate field."""
    if not error.server_message:
        return failed(answers.line(str(error), 300))
    reason = str(error).removesuffix(f": {error.server_message}")
    out = failed(answers.line(reason, 300))
    out["error_from_receiver"] = answers.line(error.server_message, 300)
    return out


def _error_message(error: Err, request: Mapping[str, Any]) -> str:
    name, why = refusals.first_problem(error)
    why = answers.line(why, 500)
    match error.kind, name:
        case Kind.NOT_FOUND, _:
            return NOT_FOUND.format(id=answers.line(str(request.get("schedule_id")), 200))
        case ((Kind.QUOTA | Kind.TOO_FAST), _):
            return f"Quota exceeded: {refusals.message_of(error)}"
        case _, "timezone":
            return f"Unknown timezone: {answers.line(str(request.get('timezone')), 100)}"
        case _, "cron":
            return f"Invalid cron expression: {answers.line(str(request.get('cron')), 100)} ({why})"
        case _, "run_at":
            now = answers.iso(clock.now(), request.get("timezone") or "UTC")
            return f"The time is in the past. The current time is {now}: choose a later one."
        case _, "args" | "kwargs":
            why = why.removeprefix("invalid arguments for task notify: ")
            return f"notification_{why}" if why.startswith("topic: ") else why
        case Kind.WRONG_STATE, _ if error.state:
            return f"Schedule already {error.state}: {request.get('schedule_id')}"
        case Kind.INVALID, "when" if error.code == Code.INVALID:
            return why
        case Kind.INVALID, _ if name:
            return f"{name}: {why}"
        case _:
            return refusals.message_of(error)


def later_out(made: services.Scheduled, delay: str | None, *notes: str) -> LaterOut:
    """Return the new notification, or the one that the idempotency key created before."""
    job = made.job
    return {
        "success": True,
        "message_id": job.public_id,
        "scheduled_time": answers.iso_or_none(job.run_at, job.timezone),
        "delay": delay,
        "notification_topic": topic_of(job),
        "confirmation": f"Notification scheduled for {answers.describe_time(job)}",
        **answers.schedule_of(job, clock.now()),
        **answers.advice_on(made, *notes),
    }


def cron_out(made: services.Scheduled) -> CronOut:
    """Return the new schedule, or the one that the idempotency key created before."""
    job = made.job
    schedule = answers.schedule_of(job, clock.now())
    return {
        "success": True,
        "schedule_id": job.public_id,
        "cron": f"CRON_TZ={job.timezone} {job.cron}" if job.cron else None,
        "notification_topic": topic_of(job),
        "label": job.label or None,
        "confirmation": f"Notification scheduled: {schedule['description']} ({job.timezone})",
        **schedule,
        **answers.advice_on(made),
    }


def listed_rows(jobs: JobQuerySet) -> Any:
    """Read notifications as the rows that `listed_out` needs."""
    texts = jobs.annotate(
        message=Argument("message", 0), topic=NotificationTopic(), channel=Argument("channel", 12)
    )
    columns = ("label", "status", "next_run_at", "skips", "last_run_at", "message", "topic", "channel")
    return texts.values_list(*columns, *WORDS_COLUMNS, named=True)


def listed_out(job: Any) -> ListedOut:
    out: ListedOut = {
        "schedule_id": job.public_id,
        "description": words_of(job),
        "timezone": job.timezone,
        "notification_topic": _place(job.topic, job.channel),
        "label": answers.line(job.label, 200) or None,
        "paused": job.status == Job.Status.PAUSED,
        "next_occurrence": answers.iso_or_none(shown_next_run(job), job.timezone),
        "last_occurrence": answers.iso_or_none(job.last_run_at, job.timezone),
        "notification_body": answers.readable(str(job.message or "")),
    }
    if job.run_at:
        out["scheduled_time"] = answers.iso(job.run_at, job.timezone)
    elif job.cron:
        out["cron_expression"] = job.cron
    return out


def topic_of(job: Any) -> str:
    """Return where a notification goes: the topic, or the channel after its prefix."""
    return _place(argument_of(job, "topic"), argument_of(job, "channel"))


def _place(topic: Any, channel: Any) -> str:
    return f"{PREFIX}{channel}" if channel else str(topic or "")
