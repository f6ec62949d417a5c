"""The outlook of a period: what runs, what is left out and why, crowded minutes, and what agents will use.

The agenda is read and nothing is written. Paused jobs and jobs that wait for confirmation are left out.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from schedules.engine.gaps import reason_of_pause
from schedules.models import Job
from schedules.models.jobs import JobQuerySet, shared_schedule, skips_of, trigger_of_job
from schedules.services.job_list import JobQuery
from schedules.services.jobs.agenda import Line, read_agenda
from schedules.services.jobs.expected_use import (
    Plan,
    Total,
    apply_limits,
    apply_stops,
    read_prompts,
    total_use,
    use_in_words,
)
from schedules.services.jobs.forecasts import UPCOMING_COLUMNS
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.durations import TICK
from schedules.when.forecast import PendingJob, runs_ahead
from schedules.when.slot_batches import Batch, count_slots
from schedules.when.triggers import TriggerError, load_zone

USUAL_PERIOD = timedelta(days=7)
# How many jobs are read, the next to run first.
MAX_JOBS = 1_000
# How many slots of one job are looked up one by one for the reason why they are skipped.
MAX_SKIPPED = 5_000
TOO_MANY_SKIPPED = "Skipped by its days or calendars."
# A minute with this many starts is crowded; at most MAX_CROWDS of them are listed, with at most MAX_NAMES names each.
MANY_STARTS = 10
MAX_CROWDS = 5
MAX_NAMES = 5
MAX_COUNTED = 200_000
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Crowd:
    """A minute in which many runs start, with the names of the first jobs."""

    at: datetime
    starts: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outlook:
    plans: Sequence[Plan]
    """The jobs of the period, by their first slot."""
    crowded_minutes: int
    crowds: Sequence[Crowd]
    use: Total | None
    """None if no job of the period gives prompts to a runner."""
    is_cut: bool
    """Whether there are more jobs than were read."""
    has_unchecked: bool
    """Whether there were too many runs to count crowds or to apply the limits of runners."""

    @property
    def count(self) -> int:
        return sum(plan.count for plan in self.plans)

    @property
    def lines(self) -> list[Line]:
        """The runs of each job, as the agenda shows them."""
        return [
            Line(plan.job, plan.starts[0].first, plan.starts[-1].last, plan.count, plan.starts)
            for plan in self.plans
            if plan.starts
        ]

    @property
    def left_out(self) -> int:
        return sum(each.count for plan in self.plans for each in plan.left_out.values())


def read_outlook(
    actor: Actor, query: JobQuery, now: datetime, *, since: datetime | None = None, until: datetime
) -> Outlook:
    """Return the outlook of the matching jobs from now, or from a later moment, up to the end of a period."""
    start = max(since or now, now)
    jobs = query.narrow(actor.jobs())
    agenda = read_agenda(actor, query, now, since=since, until=until, most=MAX_JOBS)
    plans = {line.job.pk: Plan(line.job, list(line.starts)) for line in agenda.lines}
    _leave_out_skips(plans, jobs, now, start, until)
    _leave_out_pauses(plans, jobs, start, until)
    read_prompts(plans, now)
    apply_stops(plans.values())
    is_checked = apply_limits(plans.values(), start, now)
    counts = _starts_per_minute(plans.values(), start, until)
    crowded = [(count, -minute) for minute, count in (counts or {}).items() if count >= MANY_STARTS]
    shown = [plan for plan in plans.values() if plan.starts or plan.left_out or plan.problem]
    return Outlook(
        sorted(shown, key=lambda plan: (plan.first or until, plan.job.pk)),
        len(crowded),
        _crowds(plans.values(), crowded),
        total_use(shown),
        agenda.is_cut,
        counts is None or not is_checked,
    )


def outlook_json(outlook: Outlook, zone: str, most: int) -> dict[str, Any]:
    """Return an outlook as JSON, with at most this many jobs; moments are in the zone."""
    plans = outlook.plans[:most]
    return {
        "left_out": [
            {
                "job_id": plan.job.public_id,
                "name": plan.job.name,
                "reason": each.reason,
                "count": each.count,
                "first": _iso(each.first, zone),
                "last": _iso(each.last, zone),
            }
            for plan in plans
            for each in sorted(plan.left_out.values(), key=lambda each: each.first)
        ],
        "problems": {plan.job.public_id: plan.problem for plan in plans if plan.problem},
        "crowds": [
            {"at": _iso(crowd.at, zone), "starts": crowd.starts, "jobs": list(crowd.names)}
            for crowd in outlook.crowds
        ],
        "spend": use_in_words(outlook.use) if outlook.use else None,
        "spend_by_job": {plan.job.public_id: plan.use for plan in plans if plan.use},
    }


def outlook_in_words(outlook: Outlook) -> list[str]:
    """Describe an outlook in sentences for pages."""
    words = []
    if outlook.left_out:
        runs = "1 planned run is" if outlook.left_out == 1 else f"{outlook.left_out:,} planned runs are"
        words.append(f"{runs} left out: {_reasons(outlook)}")
    if outlook.crowded_minutes:
        minutes = "1 minute" if outlook.crowded_minutes == 1 else f"{outlook.crowded_minutes:,} minutes"
        words.append(f"{minutes} in which {MANY_STARTS} or more runs start.")
    if outlook.use:
        words.append(f"Agents: {use_in_words(outlook.use)}.")
    words += [plan.problem for plan in outlook.plans if plan.problem][:1]
    return words + notes_on(outlook)


def notes_on(outlook: Outlook) -> list[str]:
    """List what an outlook does not cover."""
    notes = []
    if outlook.is_cut:
        notes.append(f"Only the next {MAX_JOBS:,} jobs to run are counted.")
    if outlook.has_unchecked:
        notes.append(
            "There are too many runs to check each: limits of runners or crowded minutes are left out."
        )
    return notes


def _reasons(outlook: Outlook) -> str:
    counts: Counter[str] = Counter()
    for plan in outlook.plans:
        for each in plan.left_out.values():
            counts[each.reason] += each.count
    shown = [f"{count:,}x {reason}" for reason, count in counts.most_common(3)]
    return "; ".join([*shown, *(["…"] if len(counts) > len(shown) else [])])


def _leave_out_skips(
    plans: dict[int, Plan], jobs: JobQuerySet, now: datetime, start: datetime, until: datetime
) -> None:
    """Leave out the slots on skipped days, skipped slots and those in closed times."""
    soonest = jobs.armed().filter(next_run_at__lte=until).order_by("next_run_at")
    for row in soonest.values_list(*UPCOMING_COLUMNS, named=True)[:MAX_JOBS]:
        if not (row.skips or row.closed_by):
            continue
        plan = plans.get(row.pk) or Plan(row)
        with suppress(TriggerError):
            for reason, first, last, count in _skipped(plan, now, start, until):
                plan.leave_out(reason, first, last, count)
        if plan.left_out:
            plans[row.pk] = plan


def _skipped(
    plan: Plan, now: datetime, start: datetime, until: datetime
) -> Iterator[tuple[str, datetime, datetime, int]]:
    job = plan.job
    skips = skips_of(job)
    # A job with a limit of runs ends with its last run.
    end = plan.starts[-1].last if job.max_runs is not None and plan.starts else until
    pending = PendingJob(trigger_of_job(job), job.next_run_at, job.ends_at)
    every = [batch for batch in runs_ahead(pending, now, end + TICK, start=start) if batch]
    total = sum(map(len, every))
    if skips is None or not total:
        return
    if total > MAX_SKIPPED:
        if total > plan.count:
            yield TOO_MANY_SKIPPED, every[0].first, every[-1].last, total - plan.count
        return
    for moment in (moment for batch in every for moment in batch.moments()):
        if reason := skips.reason(moment):
            yield reason, moment, moment, 1


def _leave_out_pauses(plans: dict[int, Plan], jobs: JobQuerySet, start: datetime, until: datetime) -> None:
    """Leave out the slots within pauses; jobs that wait for confirmation are paused."""
    columns = (*UPCOMING_COLUMNS, "paused_until", "pause_reason")
    # In no order: SQLite would walk the jobs of everybody for it.
    paused = jobs.filter(status=Job.Status.PAUSED, deleted_at=None).order_by()
    for row in paused.values_list(*columns, named=True)[:MAX_JOBS]:
        with suppress(TriggerError):
            trigger = trigger_of_job(row)
            end = min(filter(None, [row.paused_until, row.ends_at and row.ends_at + TICK, until + TICK]))
            first = trigger.next_after(start - TICK)
            if first is not None and first < end:
                last = trigger.latest_at_or_before(end - TICK, first) or first
                plan = plans.setdefault(row.pk, Plan(row))
                plan.leave_out(reason_of_pause(row), first, last, count_slots(trigger, first, end))


def _starts_per_minute(plans: Iterable[Plan], start: datetime, until: datetime) -> Counter[int] | None:
    """Count the starts of each minute, those that are overdue in the first; None if there are too many."""
    shared: Counter[tuple[Any, ...]] = Counter()
    batch_by_shape: dict[tuple[Any, ...], Batch] = {}
    for plan in plans:
        for batch in plan.starts if plan.job.task != HEARTBEAT else ():
            shape = _shape(plan.job, batch)
            batch_by_shape[shape] = batch
            shared[shape] += 1
    first, counts = _minute_of(start), Counter[int]()
    remaining = MAX_COUNTED
    for shape, times in shared.items():
        batch = batch_by_shape[shape]
        remaining -= len(batch)
        if remaining < 0:
            return None
        origin = int((batch.origin - _EPOCH).total_seconds())
        for second in batch.seconds:
            counts[max((origin + second) // 60, first)] += times
    return counts


def _shape(job: Any, batch: Batch) -> tuple[Any, ...]:
    """Return a key that is equal for batches with the same runs; comparing all their seconds would take too long."""
    return (*(shared_schedule(job) or (job.pk,)), batch.first, batch.last, len(batch))


def _crowds(plans: Iterable[Plan], crowded: Sequence[tuple[int, int]]) -> list[Crowd]:
    crowds = []
    for count, minute in heapq.nlargest(MAX_CROWDS, crowded):
        at = _EPOCH - minute * _MINUTE
        crowds.append(Crowd(at, count, _names_at(plans, at)))
    return sorted(crowds, key=lambda crowd: crowd.at)


def _names_at(plans: Iterable[Plan], minute: datetime) -> list[str]:
    names: dict[str, None] = {}
    end = minute + _MINUTE
    for plan in plans:
        if len(names) < MAX_NAMES and any(batch.between(minute, end) for batch in plan.starts):
            names[plan.job.name] = None
    return list(names)


def _minute_of(moment: datetime) -> int:
    return (moment - _EPOCH) // _MINUTE


def _iso(moment: datetime, zone: str) -> str:
    return moment.astimezone(load_zone(zone)).isoformat(timespec="seconds")
