"""The next runs of one job or of all jobs, and previews that describe a schedule."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import chain, islice
from typing import Any, TypeAlias

from schedules import clock, engine
from schedules.models import Execution, Job, Profile
from schedules.models.calendars import closed_by
from schedules.models.jobs import JobQuerySet, shared_schedule, skips_of, trigger_of_job, why_skipped
from schedules.services.permissions import Actor
from schedules.tasks.placeholders import NOTIFICATION
from schedules.when.forecast import start_of_day
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import UNKNOWN_START, After, Unplanned
from schedules.when.zones import short_words

Status = Execution.Status

MAX_UPCOMING = 100
MAX_STEPS = 2000
MAX_NAMED_DAYS = 5
# What describing a schedule needs; rows of these columns are read several times faster than models.
WORDS_COLUMNS = ("public_id", *Job.SLOT_FIELDS)
UPCOMING_COLUMNS = (
    *("pk", "public_id", "name", "task", "next_run_at"),
    *(*Job.SLOT_FIELDS, "ends_at", "max_runs", "slot_count"),
)
_Run: TypeAlias = tuple[datetime, int, Any]
# By what several jobs share: a moment, and the next slot after it.
_SlotCache: TypeAlias = dict[tuple[str, ...], tuple[datetime, datetime | None]]


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule in words with its next runs, for the form, the admin and the tools."""

    description: str
    timezone: str
    next_runs: list[datetime]
    warnings: list[str]
    waits_for: str = ""
    """What a job without known next runs waits for, such as "the next start"."""


def words_of(job: Any) -> str:
    """Describe the schedule of a job, or of a row with WORDS_COLUMNS; return the raw text if it cannot be read."""
    try:
        trigger = trigger_of_job(job)
        if isinstance(trigger, After):
            return trigger.words_with(name_of_upstream(trigger))
        description = trigger.words()
        closed = closed_by(job) if job.closed_by else None
        return description + closed.clause if closed else description
    except TriggerError:
        return job.cron or str(job.trigger_type)


def whole_words_of(job: Job) -> str:
    """Describe the schedule of a job with its end and the days that it leaves out."""
    parts = [words_of(job)]
    if job.ends_at is not None:
        parts.append(f"until {short_words(job.ends_at, job.timezone)}")
    return ", ".join(filter(None, [*parts, skipped_days_in_words(job)]))


def skipped_days_in_words(job: Job) -> str:
    """Say on which days a job does not run although its schedule has a run; empty if there are none."""
    days = [entry for entry in job.skips.split() if len(entry) == len("2026-12-24")]
    more = f" and {len(days) - MAX_NAMED_DAYS} more days" if len(days) > MAX_NAMED_DAYS else ""
    return f"not on {', '.join(days[:MAX_NAMED_DAYS])}{more}" if days else ""


def name_of_upstream(trigger: After) -> str:
    """Return the name of the job that another one follows, or its id if it is gone."""
    names = Job.objects.called(trigger.job).values_list("name", flat=True)
    return next(iter(names), trigger.job)


def words_by_key(keys: Collection[int]) -> dict[int, str]:
    """Describe the schedules of the jobs with these keys."""
    if not keys:
        return {}
    rows = Job.objects.filter(pk__in=keys).values_list("pk", *WORDS_COLUMNS, named=True)
    return {row.pk: words_of(row) for row in rows}


def preview_of(job: Job, now: datetime, count: int = 5) -> Preview:
    """Preview a stored job up to its end; an unreadable schedule becomes a warning."""
    try:
        trigger = job.trigger
        warnings = trigger.warnings(now)
    except TriggerError as error:
        return Preview(words_of(job), job.timezone, [], [error.reason])
    is_waiting = as_resumed(job, now).next_run_at == UNKNOWN_START
    waits_for = trigger.awaited if is_waiting and isinstance(trigger, Unplanned) else ""
    runs = next_runs_of(job, now, count)
    warnings += _calendar_warnings(job, runs) + quiet_warnings(job, runs)
    return Preview(words_of(job), job.timezone, runs, warnings, waits_for)


def quiet_warnings(job: Job, runs: Sequence[datetime], profile: Profile | None = None) -> list[str]:
    """Say when a notification is sent that is due in its owner's quiet hours; a job without a task may be one."""
    if not runs or job.urgent or not engine.waits_for_quiet_hours(job.task or NOTIFICATION, job.public_id):
        return []
    profile = profile or Profile.objects.filter(user=job.owner_id).first()
    if profile is None or not profile.quiet_hours:
        return []
    quiet = engine.QuietHours(profile.quiet_hours, profile.zone)
    first = next((run for run in runs if quiet.until(run)), None)
    if first is None:
        return []
    at = short_words(first, quiet.zone)
    return [f"Quiet hours are {quiet.hours}: a notification due on {at} is held and sent at {quiet.end}."]


def _calendar_warnings(job: Job, runs: Sequence[datetime]) -> list[str]:
    """Warn if runs lie beyond the last day that the job's calendars have data for."""
    closed = closed_by(job) if job.closed_by else None
    if closed is None or closed.until is None:
        return []
    last = max(filter(None, [job.ends_at, *runs[-1:]]), default=None)
    if last is None or last < start_of_day(closed.until + timedelta(days=1), job.timezone):
        return []
    return [f"Its calendars have data until {closed.until}: runs after that are not checked yet."]


def next_runs_of(job: Job, now: datetime, count: int = 5) -> list[datetime]:
    """List a job's next runs up to its end; for a paused job, those after its pause."""
    job = as_resumed(job, now)
    return list(islice(slots_ahead(job, now), count)) if job.status == Job.Status.PENDING else []


def as_resumed(job: Job, now: datetime) -> Job:
    """Return a copy of a paused job as it will be when its pause ends; return any other job unchanged."""
    if job.status != Job.Status.PAUSED or job.paused_until is None:
        return job
    later = copy(job)
    # A job whose schedule cannot be read stays paused.
    with suppress(TriggerError):
        later.next_run_at = job.next_slot(max(job.paused_until, now))
        later.status = Job.Status.PENDING
    return later


def soonest_jobs(jobs: JobQuerySet, columns: Sequence[str], until: datetime, limit: int) -> list[Any]:
    """Return these columns of the jobs that fire before a moment, the next first."""
    rows = jobs.armed().filter(next_run_at__lte=until).order_by("next_run_at")
    return list(rows.values_list(*columns, named=True)[:limit])


def has_more_than(jobs: JobQuerySet, limit: int) -> bool:
    """Return whether more than `limit` of these jobs have a next run."""
    return jobs.armed().order_by("next_run_at")[limit : limit + 1].exists()


def planned_runs(
    actor: Actor, now: datetime, *, hours: float = 24, limit: int = MAX_UPCOMING
) -> list[tuple[datetime, Any]]:
    """List the planned runs of the next hours, soonest first, each with the row of its job."""
    until = now + timedelta(hours=hours)
    rows = soonest_jobs(actor.jobs(), UPCOMING_COLUMNS, until, limit)
    if len(rows) == limit:
        # The next runs of these jobs alone fill the list, so it contains no later run.
        until = rows[-1].next_run_at
    rows += resumed_rows(actor.jobs(), now, until, limit)
    slot_cache: _SlotCache = {}
    # Most jobs have only one run in the list. Merge just the others: merging is far slower than sorting.
    first_runs: list[_Run] = []
    later_runs: list[Iterator[_Run]] = []
    for row in rows:
        runs = _runs(row, now, until, slot_cache)
        first_runs += islice(runs, 1)
        if second := next(runs, None):
            later_runs.append(chain([second], runs))
    soonest_runs = sorted([*first_runs, *islice(merge(*later_runs), limit)])
    return [(slot, row) for slot, _, row in soonest_runs[:limit]]


def resumed_rows(jobs: JobQuerySet, now: datetime, until: datetime, limit: int) -> list[Any]:
    """Read the jobs whose pause ends before a moment, as they will be then."""
    paused = jobs.filter(status=Job.Status.PAUSED, paused_until__lte=until).order_by("paused_until")
    # Keys first: there are nearly always none, and a query with many columns takes twice as long to build.
    keys = list(paused.values_list("pk", flat=True)[:limit])
    if not keys:
        return []
    rows = []
    resumed = paused.filter(pk__in=keys)
    for row in resumed.values_list(*UPCOMING_COLUMNS, "paused_until", named=True):
        with suppress(TriggerError):
            slot = trigger_of_job(row).next_after(max(row.paused_until, now))
            rows.append(row._replace(next_run_at=slot))
    return rows


def _runs(row: Any, now: datetime, until: datetime, slot_cache: _SlotCache) -> Iterator[_Run]:
    return ((slot, row.pk, row) for slot in slots_ahead(row, now, until, slot_cache=slot_cache))


def slots_ahead(
    job: Any,
    now: datetime,
    until: datetime | None = None,
    *,
    start: datetime | None = None,
    slot_cache: _SlotCache | None = None,
) -> Iterator[datetime]:
    """Yield the remaining slots of a pending job, starting with its next run or with a later slot.

    Jobs may share a `slot_cache`, so that the next slot of the same cron expression is computed only once.
    """
    slot = start or job.next_run_at
    remaining = None if job.max_runs is None else job.max_runs - job.slot_count
    skips = skips_of(job)
    while slot and slot != UNKNOWN_START and (until is None or slot <= until) and remaining != 0:
        if job.ends_at and slot > job.ends_at:
            return
        since = slot
        if skips and skips.reason(slot):
            since = skips.last_moment(slot)
        else:
            yield slot
            remaining = None if remaining is None else remaining - 1
        if job.trigger_type == Job.TriggerType.ONCE:
            return
        try:
            slot = _slot_after(job, max(since, now), {} if slot_cache is None else slot_cache)
        except TriggerError:
            # The engine reports this error when the job is due.
            return


def _slot_after(job: Any, moment: datetime, slot_cache: _SlotCache) -> datetime | None:
    schedule = shared_schedule(job)
    if schedule and schedule in slot_cache:
        since, following = slot_cache[schedule]
        if following and since <= moment < following:
            return following
    following = trigger_of_job(job).next_after(moment)
    if schedule:
        slot_cache[schedule] = moment, following
    return following


def shown_next_run(row: Any) -> datetime | None:
    """Return the next run of a job, or of a row with its id, that is not skipped; None while it is unknown."""
    slot: datetime | None = row.next_run_at
    if slot == UNKNOWN_START:
        return None
    try:
        if slot is None or not why_skipped(row, slot):
            return slot
    except TriggerError:
        # The engine reports this error when the job is due.
        return slot
    job = row if isinstance(row, Job) else Job.objects.find(row.public_id)
    return next(slots_ahead(job, clock.now()), None) if job else slot
