"""Pings of jobs that run elsewhere: store a batch and end the slots that wait for it; fail the slots whose ping is missing.

If Cronty was away, nobody knows whether a ping came, so these slots are missed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple, Self
from uuid import UUID

from django.db import transaction

from schedules.engine.heartbeat_state import HeartbeatState, Signal, clock_words, zone_of
from schedules.engine.history import Outcome
from schedules.engine.incidents import Missed, raise_missed
from schedules.engine.interruptions import absences
from schedules.engine.pauses import resume_pinged
from schedules.engine.settle import conclude
from schedules.engine.sql.statements import update_rows
from schedules.limits import PING_BODY_BYTES
from schedules.models import KEPT_PINGS, Execution, Heartbeat, Job, Ping, RunOutput
from schedules.models.heartbeats import HEALTHCHECKS
from schedules.tasks.heartbeat import grace_of
from schedules.when import durations

# After how many pings of a heartbeat its oldest ones are deleted.
PRUNE_EVERY = 50
_JOB_COLUMNS = (
    *(
        "owner_id",
        "public_id",
        "name",
        "task",
        "args",
        "kwargs",
        "status",
        "next_run_at",
        "deleted_at",
        "created_at",
        "source",
        "paused_until",
        "proposed_at",
    ),
    *Job.SLOT_FIELDS,
    *("ends_at", "max_runs", "slot_count", "run_count", "overlap", "catch_up"),
)
_JOB_CHANGES = ("next_run_at", "anchor_at", "status", "slot_count", "run_count")
_RUN_CHANGES = (
    *("status", "reason", "attempt", "available_at", "lease_until", "started_at", "finished_at", "lateness"),
    *("result", "error"),
)
_HEARTBEAT_CHANGES = (
    *("pings", "last_ping_at", "last_kind", "last_rid", "last_success_at", "last_duration", "started_rid"),
)
Status = Execution.Status
_DAY = timedelta(days=1)


def receive(signals: Sequence[Signal], now: datetime) -> list[bool]:
    """Store pings; return for each whether it was accepted, that is, whether its job still exists."""
    with transaction.atomic():
        states = _lock(signals, now)
        accepted = []
        for signal in signals:
            state = states.get(signal.job_id)
            accepted.append(state is not None)
            if state:
                state.receive(signal)
        _write([state for state in states.values() if state.pings], now)
    return accepted


def _lock(signals: Sequence[Signal], now: datetime) -> dict[int, HeartbeatState]:
    """Lock the jobs, in the same order in all processes, and read the runs that wait for a ping."""
    job_ids = {signal.job_id for signal in signals}
    rows = Job.objects.filter(pk__in=job_ids, deleted_at=None).order_by("pk").only(*_JOB_COLUMNS)
    jobs = {job.pk: job for job in rows.select_for_update(no_key=True)}
    pinged = {signal.job_id for signal in signals if signal.kind != Ping.Kind.LOG}
    for job in jobs.values():
        is_endless = job.status == Job.Status.PAUSED and not (job.paused_until or job.proposed_at)
        if is_endless and job.source == HEALTHCHECKS and job.pk in pinged:
            resume_pinged(job, now)
    heartbeats = {each.job_id: each for each in Heartbeat.objects.filter(job__in=list(jobs))}
    live: dict[int, list[Execution]] = defaultdict(list)
    waiting = Execution.objects.live().filter(job__in=list(jobs)).order_by("scheduled_for", "pk")
    for row in waiting.defer("traceback", "earlier_attempts"):
        live[row.job_id or 0].append(row)
    earlier = _earlier_pings(heartbeats, signals)
    return {
        pk: HeartbeatState(job, heartbeats[pk], live[pk], now, earlier.get(heartbeats[pk].pk, ()))
        for pk, job in jobs.items()
        if pk in heartbeats
    }


def _earlier_pings(
    heartbeats: Mapping[int, Heartbeat], signals: Sequence[Signal]
) -> dict[int, list[tuple[str, UUID]]]:
    """Return by heartbeat the kinds and run ids of earlier pings that late ones may repeat."""
    rids = {signal.rid for signal in signals if signal.late_by and signal.rid}
    by_heartbeat: dict[int, list[tuple[str, UUID]]] = defaultdict(list)
    if rids:
        pinged = [heartbeats[signal.job_id] for signal in signals if signal.job_id in heartbeats]
        pings = Ping.objects.filter(heartbeat__in=pinged, rid__in=rids).order_by()
        for heartbeat_id, kind, rid in pings.values_list("heartbeat", "kind", "rid"):
            if rid:
                by_heartbeat[heartbeat_id].append((kind, rid))
    return by_heartbeat


def _write(states: Sequence[HeartbeatState], now: datetime) -> None:
    """Write all changes of a batch; the number of statements does not depend on the number of jobs."""
    Execution.objects.bulk_create([row for state in states for row in state.new])
    changed = [row for state in states for row in state.changed.values()]
    _update(Execution, _RUN_CHANGES, changed)
    _update(Job, _JOB_CHANGES, [state.job for state in states if state.has_moved])
    conclude([_outcome_of(row, now) for state in states for row in state.ended])
    _update(Heartbeat, _HEARTBEAT_CHANGES, [state.heartbeat for state in states])
    for state in states:
        for ping, row in state.pings:
            ping.execution_id = row.pk if row else None
    Ping.objects.bulk_create([ping for state in states for ping, _ in state.pings])
    _add_outputs([(row, text) for state in states for row, text in state.texts], now)
    _prune(states)


def _update(model: type[Execution | Job | Heartbeat], columns: Sequence[str], rows: Sequence[object]) -> None:
    names = ("id", *columns)
    assignments = ", ".join(f"{name} = {{{name}}}" for name in columns)
    update_rows(model, assignments, names, [[getattr(row, name) for name in names] for row in rows])


def _outcome_of(row: Execution, now: datetime) -> Outcome:
    assert row.finished_at is not None
    # A job's history only goes forward, even when a ping arrives late.
    ended = max(row.finished_at, now)
    return Outcome(
        row.pk,
        row.attempt,
        row.job_id or 0,
        Execution.Status(row.status),
        ended,
        error=row.error,
        reason=row.reason,
        started_at=ended - row.took if row.took is not None else None,
    )


def _add_outputs(texts: Sequence[tuple[Execution, str]], now: datetime) -> None:
    """Append the bodies of pings to the output of their runs."""
    if not texts:
        return
    keys = {row.pk for row, _ in texts}
    outputs = {output.execution_id: output for output in RunOutput.objects.filter(execution__in=keys)}
    for row, text in texts:
        output = outputs.setdefault(row.pk, RunOutput(execution=row, attempt=row.attempt, position=0))
        added = f"{output.tail and chr(10)}{text}"
        output.tail = (output.tail + added)[-PING_BODY_BYTES:]
        output.position += len(added)
        output.updated_at = now
    RunOutput.objects.bulk_create(
        outputs.values(),
        update_conflicts=True,
        unique_fields=["execution", "attempt"],
        update_fields=["tail", "position", "updated_at"],
    )


def _prune(states: Sequence[HeartbeatState]) -> None:
    """Delete the oldest pings of those heartbeats that have received many since the last time."""
    for state in states:
        newest = state.heartbeat.pings
        if newest // PRUNE_EVERY > (newest - len(state.pings)) // PRUNE_EVERY:
            Ping.objects.filter(heartbeat=state.heartbeat.pk, number__lte=newest - KEPT_PINGS).delete()


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
