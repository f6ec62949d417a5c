"""Answers to agents: times, schedules, warnings and advice, as all tool families write them."""

import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules import clock, engine, limits
from schedules.channels.ntfy import NTFY_MESSAGE_BYTES
from schedules.mcp.auth import current_actor
from schedules.models import Job
from schedules.secrets import masking
from schedules.services import Scheduled
from schedules.services.jobs.creation import SimilarJob, policy_defaults
from schedules.services.jobs.forecasts import (
    next_runs_of,
    quiet_warnings,
    shown_next_run,
    skipped_days_in_words,
    words_of,
)
from schedules.services.permissions import confirmation_hint
from schedules.services.runs.prompts import will_wait_unclaimed
from schedules.tasks.builtin import WEBHOOK_METHOD
from schedules.tasks.links import page_of_job
from schedules.when import durations
from schedules.when.triggers import TriggerError, load_zone, unreadable
from schedules.when.zones import is_repeated

# How many seconds the answer is reused, so that not every call asks the database.
_WORKER_CHECK_SECONDS = 1.0

POSTS_TO_HEALTH_CHECK = (
    'This sends POST, and health checks are mostly asked by GET: if this one is, set kwargs {"method": "GET"} '
    "with update_job."
)
_HEALTH_CHECK = re.compile(
    r"(?:^|[/._-])(?:hc-)?(?:ping|pings|health|healthz|healthcheck|livez?|readyz?|alive|status|heartbeat|uptime)"
    r"(?:$|[/._?#-])",
    re.IGNORECASE,
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
NO_WORKER = "No worker is running, so nothing fires until one is started: tell the user."
NO_AGENT_ASKS = (
    "No agent has asked for prompts in the last week, so this one will wait in the inbox: tell the user to have an agent "
    "call claim_prompts at regular intervals, or to answer it there."
)
OLDER_RUNS = "Older runs were not looked through: counts may be too low, and jobs may be missing."
MESSAGE_TOO_LONG = (
    f"A notification carries {NTFY_MESSAGE_BYTES:,} bytes: the rest of this message will be cut off. "
    "Shorten it, or schedule several."
)


class ScheduleOut(TypedDict):
    """The schedule of a job, in every answer to a call that creates or changes one."""

    description: str
    timezone: str
    next_runs: list[str]


class JobOut(ScheduleOut):
    """A job as it is now."""

    job_id: str
    name: str
    next_run: str | None
    status: str


class OtherJobOut(TypedDict):
    """Another job of the user; its name is data."""

    job_id: str
    name: str


class WarningOut(TypedDict):
    """A warning for the user, if there is one, and the job whose name looks the same."""

    warning: NotRequired[str]
    look_alike: NotRequired[OtherJobOut]


class AdviceOut(WarningOut):
    """What a creating tool adds if there is something to point out, and the call that undoes it."""

    undo: NotRequired[str]
    method: NotRequired[str]
    tags: NotRequired[list[str]]
    attempts: NotRequired[int]
    backoff: NotRequired[str]
    alerts: NotRequired[str]
    max_runs: NotRequired[int]
    ends_at: NotRequired[str]
    calendars: NotRequired[list[str]]
    existing: NotRequired[bool]
    similar: NotRequired[OtherJobOut]


def iso(moment: datetime, timezone: str, timespec: str = "seconds") -> str:
    """Format a moment as ISO 8601 with the offset of the zone."""
    return moment.astimezone(_zone(timezone)).isoformat(timespec=timespec)


def iso_or_none(moment: datetime | None, timezone: str, timespec: str = "seconds") -> str | None:
    return None if moment is None else iso(moment, timezone, timespec)


def local(moment: datetime, timezone: str) -> str:
    """Format a moment for a sentence: "Wed 2026-02-04 15:00 Europe/Berlin"."""
    wall_time = moment.astimezone(_zone(timezone))
    text = wall_time.isoformat(" ", "seconds")
    # Without the seconds of a full minute, and with the offset only if clocks show the time twice.
    shown = text[: 19 if wall_time.second else 16] + (text[19:] if is_repeated(wall_time) else "")
    return f"{_DAYS[wall_time.weekday()]} {shown} {timezone}"


def describe_time(job: Job) -> str:
    """Describe when a job runs: the moment of a one-off, else its schedule in words."""
    return local(job.run_at, job.timezone) if job.run_at else words_of(job)


def readable(value: Any) -> Any:
    """Copy stored JSON for an agent, with secrets masked and unprintable characters removed."""
    return printable(masking.masked(value)) if value else value


def more_than(count: int, things: str) -> str:
    """Say that counting stopped at this number."""
    return f"More than {count:,} {things} match; only the first {count:,} are counted."


def line(text: str, length: int) -> str:
    """Shorten a text to one line of at most this many characters."""
    if not text:
        return ""
    printable = text if text.isascii() and text.isprintable() else limits.strip_unprintable(text)
    one_line = " ".join(printable.split())
    return one_line if len(one_line) <= length else f"{one_line[: length - 1].rstrip()}…"


def skips_of(job: Any) -> list[str]:
    """Return the days and runs that a job, or a row with its columns, skips; runs are in its zone."""
    return [
        iso(datetime.fromisoformat(entry), job.timezone) if "T" in entry else entry
        for entry in job.skips.split()
    ]


def schedule_of(job: Job, now: datetime) -> ScheduleOut:
    """Return a job's schedule in words, with its next five runs."""
    return {
        "description": describe_schedule(job, now),
        "timezone": job.timezone,
        "next_runs": [iso(run, job.timezone) for run in next_runs_of(job, now)],
    }


class DeletedOut(TypedDict):
    """When a job was deleted, and what brings it back."""

    deleted: NotRequired[str]


def deleted_out(job: Job) -> DeletedOut:
    if job.deleted_at is None:
        return {}
    return {"deleted": f"Deleted on {local(job.deleted_at, job.timezone)}; restore_job brings it back."}


def job_out(job: Job) -> JobOut:
    """Return a job as the tools that create and change jobs show it."""
    return {
        "job_id": job.public_id,
        "name": line(job.name, 200),
        "next_run": iso_or_none(shown_next_run(job), job.timezone),
        "status": Job.Status.PENDING.value if job.waits_to_start(clock.now()) else job.state,
        **schedule_of(job, clock.now()),
    }


def describe_schedule(job: Job, now: datetime) -> str:
    """Describe a job's schedule with its start, if that is still ahead, its number of runs, its end and skipped days."""
    parts = [words_of(job)]
    is_elapsed = job.every is not None and not job.calendar_unit
    if is_elapsed and job.next_run_at and job.every and job.next_run_at > now + job.every:
        parts.append(f"starting {local(job.next_run_at, job.timezone)}")
    if job.max_runs is not None and job.trigger_type != Job.TriggerType.ONCE:
        parts.append("1 time" if job.max_runs == 1 else f"{job.max_runs} times")
    if job.ends_at is not None and job.trigger_type != Job.TriggerType.ONCE:
        parts.append(f"until {local(job.ends_at, job.timezone)}")
    return ", ".join(filter(None, [*parts, skipped_days_in_words(job)]))


def warning_on(job: Job, *notes: str, look_alike: SimilarJob | None = None) -> WarningOut:
    """Return the warnings about a job that was just created or changed, these notes included."""
    now = clock.now()
    try:
        warnings = [*job.trigger.warnings(now), *quiet_warnings(job, next_runs_of(job, now)), *notes]
    except TriggerError as error:
        warnings = [f"{unreadable(error.reason)}.", *notes]
    message = job.argument("message") if job.task == "notify" else None
    if isinstance(message, str) and len(message.encode()) > NTFY_MESSAGE_BYTES:
        warnings.append(MESSAGE_TOO_LONG)
    if job.task == "prompt" and will_wait_unclaimed(current_actor(), job, now):
        warnings.append(NO_AGENT_ASKS)
    if posts_to_health_check(job):
        warnings.append(POSTS_TO_HEALTH_CHECK)
    if note := confirmation_note(job):
        warnings.append(note)
    if not is_worker_running():
        warnings.append(NO_WORKER)
    return _warnings_out(warnings, look_alike)


def confirmation_note(job: Job) -> str:
    """Say that a job waits for confirmation, where a person gives it, and what needs none; empty for any other job."""
    if job.proposed_at is None:
        return ""
    page = page_of_job(job.public_id)
    waits = f"It waits for your user's confirmation and does not run before: ask them to confirm it at {page}"
    return f"{waits} {confirmation_hint(current_actor(), job.task)}".strip()


def posts_to_health_check(job: Job) -> bool:
    """Return whether a webhook sends POST to what looks like a health check, only because that is the default."""
    if job.task != "webhook" or job.argument("method") or job.argument("body"):
        return False
    url = str(job.argument("url") or "").partition("://")[2]
    return _HEALTH_CHECK.search(url) is not None


def requested_options(job: Job) -> AdviceOut:
    """Return what was requested for a new job besides its schedule, so that an agent sees its mistakes."""
    out: AdviceOut = {}
    if job.task == "webhook":
        out["method"] = str(job.argument("method") or WEBHOOK_METHOD)
    if job.tags:
        out["tags"] = readable(job.tags)
    defaults = policy_defaults(job.task)
    if any(getattr(job, name) != defaults[name] for name in ("attempts", "backoff", "fixed_backoff")):
        growth = "each time" if job.fixed_backoff else "doubling each time"
        out |= {"attempts": job.attempts, "backoff": f"{durations.typed(job.backoff)}, {growth}"}
    if job.alerts:
        out["alerts"] = job.alerts
    if job.max_runs is not None:
        out["max_runs"] = job.max_runs
    if job.ends_at is not None:
        out["ends_at"] = iso(job.ends_at, job.timezone)
    if job.calendars:
        out["calendars"] = readable(job.calendars)
    return out


def is_worker_running() -> bool:
    """Return whether a cluster is running; the answer may be a second old."""
    return _is_worker_running(int(clock.steady() / _WORKER_CHECK_SECONDS))


@lru_cache(maxsize=1)
def _is_worker_running(second: int) -> bool:
    return engine.is_any_cluster_running(clock.now())


def pause_warning_on(job: Job, look_alike: SimilarJob | None = None) -> WarningOut:
    """Return the warnings about a paused job, such as that no run is left when its pause ends."""
    warnings = [note] if (note := confirmation_note(job)) else []
    try:
        if job.paused_until is not None and not job.next_slot(job.paused_until):
            warnings.append(
                "No run is left after this pause: what falls into it is skipped, and the job ends. "
                "Tell the user; resume it before that, or change its schedule."
            )
    except TriggerError as error:
        warnings.append(f"{unreadable(error.reason)}.")
    return _warnings_out(warnings, look_alike)


def _warnings_out(warnings: list[str], look_alike: SimilarJob | None) -> WarningOut:
    out: WarningOut = {}
    if look_alike:
        warnings.append(
            f"Its name looks like that of another active job, {look_alike.public_id}, but is not the same: "
            "tell the user."
        )
        out["look_alike"] = _other(look_alike)
    if warnings:
        out["warning"] = " ".join(warnings)
    return out


def _other(job: SimilarJob) -> OtherJobOut:
    return {"job_id": job.public_id, "name": line(job.name, 200)}


def advice_on(made: Scheduled, *notes: str) -> AdviceOut:
    """Return the options and warnings of a new job, these notes included, and whether it existed before."""
    warnings = [*notes]
    if made.existing and made.job.status not in Job.ACTIVE:
        warnings.append(f"It is {made.job.status}: to schedule it again, use a new idempotency_key.")
    if made.similar:
        warnings.append(
            f"An active job does the same on the same schedule: {made.similar.public_id}. "
            "If this was not meant, cancel one of them."
        )
    advice = requested_options(made.job)
    if made.existing:
        advice["existing"] = True
    if made.similar:
        advice["similar"] = _other(made.similar)
    if made.job.event:
        advice["undo"] = undo_call(made.job.event.pk)
    return {**advice, **warning_on(made.job, *warnings, look_alike=made.look_alike)}


def undo_call(event_id: int) -> str:
    """Return the call that undoes a change."""
    return f"undo_change(change={event_id})"


def restore_call(job_id: str) -> str:
    """Return the call that brings back a job that was just deleted."""
    return f'restore_job(job_id="{job_id}")'


def no_zone(zone: str, what: str) -> str:
    """Say that the user has set no time zone, and in which one a local time was read."""
    return (
        f"The user has set no time zone, so {what} read in {zone}: ask which one they mean. Give it as timezone, or keep "
        "it in their preferences."
    )


def printable(value: Any) -> Any:
    """Copy JSON without unprintable characters."""
    return limits.map_texts(value, limits.strip_unprintable, with_names=True)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    """Return the zone, or UTC if the zone data no longer includes it."""
    try:
        # Stored moments already use this UTC object, so astimezone() has nothing to convert.
        return UTC if name == "UTC" else load_zone(name)
    except TriggerError:
        return UTC
