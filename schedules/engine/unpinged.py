"""Missing pings: fail the slots that waited for them, with an error that says when the last one came."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from schedules.engine.history import Outcome
from schedules.engine.settle import conclude
from schedules.models import Execution, Heartbeat, Job
from schedules.when import durations
from schedules.when.triggers import TriggerError, load_zone

Status = Execution.Status

_DAY = timedelta(days=1)


def end_unpinged(rows: Sequence[Execution], now: datetime) -> None:
    """Fail the slots of heartbeats whose grace time is over; the caller has locked them and their jobs."""
    if not rows:
        return
    keys = [row.pk for row in rows]
    # Read again: an earlier step may have ended one.
    live = Execution.objects.live().filter(pk__in=keys).order_by("pk")
    waiting = {row.pk: row for row in live.defer("result", "traceback", "earlier_attempts")}
    job_ids = {row.job_id or 0 for row in waiting.values()}
    zones = dict(Job.objects.filter(pk__in=job_ids).values_list("pk", "timezone"))
    heartbeats = {heartbeat.job_id: heartbeat for heartbeat in Heartbeat.objects.filter(job__in=job_ids)}
    outcomes = []
    for row in waiting.values():
        job_id = row.job_id or 0
        error = _why_failed(row, heartbeats.get(job_id), zone_of(zones.get(job_id, "UTC")), now)
        Execution.objects.filter(pk=row.pk).end(Status.FAILED, now, "", error=error)
        outcomes.append(Outcome(row.pk, row.attempt, job_id, Status.FAILED, now, error=error))
    conclude(outcomes)


def _why_failed(row: Execution, heartbeat: Heartbeat | None, zone: tzinfo, now: datetime) -> str:
    until = clock_words(row.available_at or row.lease_until or now, zone, row.scheduled_for)
    if row.status == Status.RUNNING:
        started = clock_words(row.started_at or row.scheduled_for, zone, row.scheduled_for)
        return f"It started at {started}, but no end was reported until {until}."
    return f"No ping came until {until}. {_last_success(row, heartbeat, zone)}"


def _last_success(row: Execution, heartbeat: Heartbeat | None, zone: tzinfo) -> str:
    """Describe the newest success: when it came and, if known, how long it took."""
    if heartbeat is None or heartbeat.last_success_at is None:
        return "None has come before."
    at = heartbeat.last_success_at
    took = heartbeat.last_duration
    after = f" after {durations.short(took)}" if took is not None else ""
    days = row.scheduled_for.astimezone(zone).date() - at.astimezone(zone).date()
    if days == _DAY:
        return f"The one of the day before came at {at.astimezone(zone):%H:%M}{after}."
    return f"The last one came {'at' if days < _DAY else 'on'} {clock_words(at, zone, row.scheduled_for)}{after}."


def clock_words(moment: datetime, zone: tzinfo, near: datetime) -> str:
    """Format a moment as a time of day, with the date if it is not that of the moment `near`."""
    local = moment.astimezone(zone)
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    return clock if local.date() == near.astimezone(zone).date() else f"{local:%Y-%m-%d} {clock}"


def zone_of(name: str) -> tzinfo:
    """Return the zone with this name, or UTC if there is none."""
    try:
        return load_zone(name)
    except TriggerError:
        return UTC
