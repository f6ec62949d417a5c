"""Missing pings: fail the slots that waited for them, unless Cronty was away, because then nobody knows."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple, Self

from schedules.engine.history import Outcome
from schedules.engine.incidents import Missed, raise_missed
from schedules.engine.interruptions import absences
from schedules.engine.settle import conclude
from schedules.models import Execution, Heartbeat, Job
from schedules.tasks.heartbeat import grace_of
from schedules.when import durations
from schedules.when.triggers import TriggerError, load_zone

Status = Execution.Status

_DAY = timedelta(days=1)


def end_unpinged(rows: Sequence[Execution], now: datetime) -> None:
    """End the slots of heartbeats whose grace time is over; the caller has locked them and their jobs.

    The grace time counts only while Cronty was there. A healthy job whose ping may have been lost has missed its slot.
    """
    if not rows:
        return
    keys = [row.pk for row in rows]
    # Read again: an earlier step may have ended one.
    live = Execution.objects.live().filter(pk__in=keys).order_by("pk")
    waiting = {row.pk: row for row in live.defer("result", "traceback", "earlier_attempts")}
    jobs = Job.objects.filter(pk__in={row.job_id for row in waiting.values()})
    jobs_by_id = jobs.only("timezone", "args", "kwargs", "failure_streak").in_bulk()
    heartbeats = {heartbeat.job_id: heartbeat for heartbeat in Heartbeat.objects.filter(job__in=jobs_by_id)}
    away = absences()
    outcomes = []
    for row in waiting.values():
        job = jobs_by_id[row.job_id or 0]
        window = _Window.of(row, grace_of(job.args, job.kwargs), away)
        if window.until > now:
            column = "lease_until" if row.status == Status.RUNNING else "available_at"
            Execution.objects.filter(pk=row.pk).update(**{column: window.until})
            continue
        heartbeat, zone = heartbeats.get(job.pk), zone_of(job.timezone)
        status, error, reason = Status.FAILED, "", ""
        if window.absence and heartbeat and heartbeat.last_success_at and not job.failure_streak:
            status, reason = Status.MISSED, _why_unknown(row, window.absence, zone)
        else:
            error = _why_failed(row, heartbeat, zone, window.until)
        Execution.objects.filter(pk=row.pk).end(status, now, reason, error=error)
        outcomes.append(Outcome(row.pk, row.attempt, job.pk, status, now, error=error, reason=reason))
    conclude(outcomes)
    if missed := [each for each in outcomes if each.status == Status.MISSED]:
        # The next ping may show soon that all is well.
        raise_missed([Missed(each.job_id, 1, each.reason, now) for each in missed], now)


class _Window(NamedTuple):
    """The time in which a ping is expected."""

    until: datetime
    absence: tuple[datetime, datetime] | None
    """The last time within it that Cronty was away."""

    @classmethod
    def of(cls, row: Execution, grace: timedelta, away: Iterable[tuple[datetime, datetime]]) -> Self:
        """Return the window of a slot or a run, longer by the times that Cronty was away."""
        begin = (row.started_at if row.status == Status.RUNNING else None) or row.scheduled_for
        until, absence = begin + grace, None
        for since, back in away:
            if since < until and back > begin:
                until += back - max(since, begin)
                absence = (since, back)
        return cls(max(until, row.available_at or row.lease_until or until), absence)


def _why_unknown(row: Execution, absence: tuple[datetime, datetime], zone: tzinfo) -> str:
    since, back = (clock_words(moment, zone, row.scheduled_for) for moment in absence)
    what = "it ended" if row.status == Status.RUNNING else "a ping came"
    return f"Nobody knows whether {what}: Cronty was away from {since} to {back}."


def _why_failed(row: Execution, heartbeat: Heartbeat | None, zone: tzinfo, deadline: datetime) -> str:
    until = clock_words(deadline, zone, row.scheduled_for)
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
