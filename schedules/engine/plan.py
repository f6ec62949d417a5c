"""Which of the slots that fell due are run, skipped or missed: the overlap and catch-up policies, in one place."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from schedules.models import Execution, Job

ON_TIME = timedelta(seconds=60)
# Planned later than this, nobody could write for a while: perhaps the run before had ended, and could not say so.
PLANNED_SOON = timedelta(seconds=5)
HELD_RUNS = 100
# A cron expression is counted slot by slot, and not without end; an interval is divided.
COUNTED_SLOTS = 10_000
MOST_SLOTS = 2**31 - 2
TICK = timedelta(microseconds=1)

Status = Execution.Status
Cause = Execution.Cause


@dataclass(frozen=True, slots=True)
class Slot:
    """One row of the ledger to be written: a slot, or a gap of them."""

    at: datetime
    status: Execution.Status
    cause: Execution.Cause = Cause.SCHEDULE
    reason: str = ""
    last: datetime | None = None
    count: int = 1
    error: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a claim does to one job: rows to write, and when it is owed its next slot."""

    job: Job
    slots: list[Slot] = field(default_factory=list)
    next_run_at: datetime | None = None
    broken: str = ""
    """Why the job could not be planned, if it could not."""

    @property
    def to_run(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.status in Execution.LIVE]

    @property
    def is_plain(self) -> bool:
        """One slot, on time, to be run now: the case that comes by the thousand."""
        return (
            len(self.slots) == 1
            and self.slots[0].status == Status.CLAIMED
            and self.slots[0].cause == Cause.SCHEDULE
            and self.slots[0].at == self.job.next_run_at
        )


def plan(
    job: Job,
    now: datetime,
    *,
    live: int,
    owner_is_active: bool,
    was_covered: Callable[[datetime], bool],
    known: Sequence[tuple[datetime, datetime | None]] = (),
) -> Plan:
    """Decide about every slot of a due job up to now; those in `known`, from a first to a last, have a row already."""
    first = job.next_run_at
    assert first is not None
    following = job.trigger.next_after(first)
    due_until = min(now, job.ends_at) if job.ends_at else now
    if following is None or following > due_until:
        newest = first
    else:
        newest = job.trigger.latest_at_or_before(due_until, first) or first
        following = job.trigger.next_after(max(now, newest))
    if not owner_is_active:
        gap = _gap(job, first, newest, Status.SKIPPED, "The owner's account is not active.")
        return _planned(job, remaining(job, gap, known), following)
    chosen, missed = _choose(job, first, newest, now, was_covered)
    rows = remaining(job, missed, known) if missed else []
    # Before the policies: a run that is not to be repeated is none to wait for, nor one of `max_runs`.
    chosen = [slot for slot in chosen if remaining(job, slot, known)]
    return _planned(job, rows + _overlapped(job, chosen, live, now), following)


def gap_slot(
    job: Job, first: datetime, until: datetime, status: Execution.Status, reason: str
) -> Slot | None:
    """Account for every slot in [first, until] with one row; None when there was none."""
    newest = job.trigger.latest_at_or_before(until, first)
    if newest is None:
        return None
    oldest = job.trigger.next_after(first - TICK)
    return _gap(job, oldest or newest, newest, status, reason)


def remaining(job: Job, slot: Slot, known: Iterable[tuple[datetime, datetime | None]]) -> list[Slot]:
    """Cut from a slot, or a gap of them, what has a row already: rows from a first to a last slot."""
    spans = sorted((first, last or first) for first, last in known)
    if not spans:
        return [slot]
    if slot.last is None:
        return [] if any(first <= slot.at <= last for first, last in spans) else [slot]
    pieces, since = [], slot.at
    for first, last in spans:
        pieces.append(gap_slot(job, since, min(first - TICK, slot.last), slot.status, slot.reason))
        since = max(since, last + TICK)
    pieces.append(gap_slot(job, since, slot.last, slot.status, slot.reason))
    return [piece for piece in pieces if piece]


def _gap(job: Job, first: datetime, last: datetime, status: Execution.Status, reason: str) -> Slot:
    if first == last:
        return Slot(first, status, reason=reason)
    limit = COUNTED_SLOTS if job.trigger_type == Job.TriggerType.CRON else MOST_SLOTS
    count = 1 + job.trigger.count_between(first, last, limit)
    return Slot(first, status, reason=reason, last=last, count=count)


def _choose(
    job: Job, first: datetime, newest: datetime, now: datetime, was_covered: Callable[[datetime], bool]
) -> tuple[list[Slot], Slot | None]:
    """Split the due slots into those to run and, as one gap, those missed."""
    if first == newest and now - first <= ON_TIME:
        return [Slot(first, Status.CLAIMED)], None
    run_from = now - timedelta(hours=settings.CRONTY_CATCH_UP_HOURS)
    match job.catch_up:
        case Job.CatchUp.NONE:
            chosen = [newest] if now - newest <= ON_TIME else []
        case _ if newest < run_from:
            chosen = []
        case Job.CatchUp.ONCE:
            chosen = [newest]
        case _:
            chosen = _newest_slots(job, max(first, run_from), newest, settings.CRONTY_CATCH_UP_RUNS)
    runs = [
        Slot(at, Status.CLAIMED, Cause.SCHEDULE if now - at <= ON_TIME else Cause.CATCH_UP) for at in chosen
    ]
    if chosen and chosen[0] == first:
        return runs, None
    # The first slot was promised, even where the trigger has since been read otherwise.
    missed_until = (_slot_before(job, chosen[0], first) or first) if chosen else newest
    why = "Every worker was busy." if was_covered(first) else "No worker was running."
    return runs, _gap(job, first, missed_until, Status.MISSED, why)


def _newest_slots(job: Job, first: datetime, newest: datetime, limit: int) -> list[datetime]:
    slots = [newest]
    while len(slots) < limit and (earlier := _slot_before(job, slots[-1], first)):
        slots.append(earlier)
    return slots[::-1]


def _slot_before(job: Job, slot: datetime, first: datetime) -> datetime | None:
    if slot <= first:
        return None
    return job.trigger.latest_at_or_before(slot - TICK, first)


def _overlapped(job: Job, chosen: list[Slot], live: int, now: datetime) -> list[Slot]:
    """Apply the overlap policy: runs of one job follow each other unless it allows otherwise."""
    if job.overlap == Job.Overlap.ALLOW or job.trigger_type == Job.TriggerType.ONCE:
        return chosen
    rows = []
    for slot in chosen:
        if live == 0:
            rows.append(slot)
        elif job.overlap == Job.Overlap.SKIP and slot.cause == Cause.SCHEDULE:
            why = "was still going" if now - slot.at <= PLANNED_SOON else "had not been settled yet"
            rows.append(Slot(slot.at, Status.SKIPPED, reason=f"The run before it {why}."))
            continue
        elif live > HELD_RUNS:
            rows.append(Slot(slot.at, Status.SKIPPED, slot.cause, f"{HELD_RUNS} runs were waiting already."))
            continue
        else:
            rows.append(Slot(slot.at, Status.QUEUED, slot.cause, "Waits for the run before it."))
        live += 1
    return rows


def _planned(job: Job, rows: list[Slot], following: datetime | None) -> Plan:
    """Cut to `max_runs` and `ends_at`, and name the next slot."""
    left = None if job.max_runs is None else max(0, job.max_runs - job.slot_count)
    kept, running = [], 0
    for row in rows:
        if row.status in Execution.LIVE:
            if running == left:
                break
            running += 1
        kept.append(row)
    is_over = running == left or (following and job.ends_at and following > job.ends_at)
    return Plan(job, kept, None if is_over else following)
