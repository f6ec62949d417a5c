"""The plan for a due job: which slots run, are skipped or are missed under its catch-up and overlap policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from django.conf import settings

from schedules.engine.gaps import PlannedJob, Slot, Span, gap_from, unrecorded
from schedules.engine.quiet_hours import Hold, hold_slots
from schedules.models import Execution, Job
from schedules.models.jobs import why_skipped
from schedules.when.durations import TICK

ON_TIME = timedelta(seconds=60)
# How many left-out slots in a row a plan checks, going back; earlier ones count as missed.
MAX_LEFT_OUT = 200
# If a slot is planned later than this, clusters could not write for a while, so the previous run may have ended without
# being settled.
PLANNED_SOON = timedelta(seconds=5)
# How many runs of a job may wait in line.
HELD_RUNS = 100

Status = Execution.Status
Cause = Execution.Cause

# Returns why a slot was not claimed on time.
WhyMissed = Callable[[datetime], str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a claim does to one job: the rows to write, and its next slot."""

    job: PlannedJob
    slots: list[Slot] = field(default_factory=list)
    next_run_at: datetime | None = None
    broken: str = ""
    """Why the job could not be planned, or an empty text."""

    @property
    def to_run(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.status in Execution.LIVE]

    @property
    def is_plain(self) -> bool:
        """Whether it is one slot that is on time and runs now, the most frequent case, which the claim handles faster."""
        return (
            len(self.slots) == 1
            and self.slots[0].status == Status.CLAIMED
            and self.slots[0].cause == Cause.SCHEDULE
            and self.slots[0].at == self.job.next_run_at
        )

    def status_after(self, *, is_busy: bool) -> str:
        """Return the status of the job when it has moved to its next slot."""
        if self.next_run_at:
            return Job.Status.PENDING.value
        if is_busy:
            return Job.Status.RUNNING.value
        if self.job.trigger_type == Job.TriggerType.ONCE and self.slots:
            return Job.Status.FAILED.value
        return Job.Status.COMPLETED.value


def plan(
    job: PlannedJob,
    now: datetime,
    *,
    live: int,
    owner_is_active: bool,
    why_missed: WhyMissed,
    recorded: Sequence[Span] = (),
    grace: timedelta | None = None,
    hold: Hold | None = None,
) -> Plan:
    """Decide on every slot of a due job up to now; `recorded` are the spans of existing rows.

    `grace` is that of a heartbeat: its slots wait for a ping instead of a worker. With a `hold`, they wait for the end
    of quiet hours.
    """
    first = job.next_run_at
    assert first is not None
    trigger = job.trigger
    following = trigger.next_after(first)
    due_until = min(now, job.ends_at) if job.ends_at else now
    if following is None or following > due_until:
        newest = first
    else:
        newest = trigger.latest_at_or_before(due_until, first) or first
        following = trigger.next_after(max(now, newest))
    is_restricted = recorded or job.skips or job.closed_by or live or grace is not None or hold is not None
    if first == newest and now - first <= ON_TIME and owner_is_active and not is_restricted:
        # The most frequent case: no policy has anything to decide.
        return _planned(job, [Slot(first, Status.CLAIMED)], following)
    if not owner_is_active:
        gap = gap_from(job, first, newest, Status.SKIPPED, "The owner's account is not active.")
        return _planned(job, unrecorded(job, gap, recorded), following)
    left_out = _left_out_at_the_end(job, first, newest) if job.skips or job.closed_by else None
    if left_out and left_out.at == first:
        return _planned(job, unrecorded(job, left_out, recorded), following)
    newest = _slot_before(job, left_out.at, first) or first if left_out else newest
    chosen, missed = _choose(job, first, newest, now, why_missed)
    rows = unrecorded(job, missed, recorded) if missed else []
    rows += unrecorded(job, left_out, recorded) if left_out else []
    # Before the policies: a slot that has already run must not delay others or count towards `max_runs`.
    chosen = [slot for slot in chosen if unrecorded(job, slot, recorded)]
    if job.skips or job.closed_by:
        due = [(slot, why_skipped(job, slot.at)) for slot in chosen]
        rows += [replace(slot, status=Status.SKIPPED, reason=reason) for slot, reason in due if reason]
        chosen = [slot for slot, reason in due if not reason]
    if grace is not None:
        return _planned(job, rows + await_pings(chosen, grace, live, now, why_missed), following)
    if hold is not None:
        return _planned(job, rows + hold_slots(chosen, hold), following)
    return _planned(job, rows + apply_overlap(job, chosen, live, now), following)


def await_pings(
    slots: list[Slot], grace: timedelta, live: int, now: datetime, why_missed: WhyMissed
) -> list[Slot]:
    """Let the slots of a heartbeat wait for their pings, except those whose grace time passed while nobody watched."""
    rows = []
    for slot in slots:
        until = slot.at + grace
        if until <= now and now - slot.at > ON_TIME:
            rows.append(replace(slot, status=Status.MISSED, reason=why_missed(slot.at)))
        elif live >= HELD_RUNS:
            rows.append(
                replace(slot, status=Status.SKIPPED, reason=f"{HELD_RUNS} pings were already awaited.")
            )
        else:
            rows.append(replace(slot, status=Status.QUEUED, until=until))
            live += 1
    return rows


def apply_overlap(job: PlannedJob, slots: list[Slot], live: int, now: datetime) -> list[Slot]:
    """Skip or queue the slots that would overlap with another run; `live` is the number of unfinished runs."""
    if job.overlap == Job.Overlap.ALLOW or job.trigger_type == Job.TriggerType.ONCE:
        return slots
    rows = []
    for slot in slots:
        if live == 0:
            rows.append(slot)
        elif job.overlap == Job.Overlap.SKIP and slot.cause == Execution.Cause.SCHEDULE:
            why = "was still running" if now - slot.at <= PLANNED_SOON else "had not been stored yet"
            rows.append(Slot(slot.at, Status.SKIPPED, reason=f"The previous run {why}."))
            continue
        elif live > HELD_RUNS:
            rows.append(Slot(slot.at, Status.SKIPPED, slot.cause, f"{HELD_RUNS} runs were already waiting."))
            continue
        else:
            rows.append(Slot(slot.at, Status.QUEUED, slot.cause, "Waiting for the previous run."))
        live += 1
    return rows


def _left_out_at_the_end(job: PlannedJob, first: datetime, newest: datetime) -> Slot | None:
    """Build one row for the newest due slots if the job leaves them out, so that an earlier slot can be caught up on."""
    reason, oldest = why_skipped(job, newest), newest
    if not reason:
        return None
    for _ in range(MAX_LEFT_OUT):
        earlier = _slot_before(job, oldest, first)
        if earlier is None or not why_skipped(job, earlier):
            break
        oldest = earlier
    return gap_from(job, oldest, newest, Status.SKIPPED, reason)


def _choose(
    job: PlannedJob, first: datetime, newest: datetime, now: datetime, why_missed: WhyMissed
) -> tuple[list[Slot], Slot | None]:
    """Split the due slots into those to run, and a gap for those that were missed."""
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
    # The first slot was stored as `next_run_at`, so it counts even if the trigger no longer includes it.
    missed_until = (_slot_before(job, chosen[0], first) or first) if chosen else newest
    return runs, gap_from(job, first, missed_until, Status.MISSED, why_missed(first))


def _newest_slots(job: PlannedJob, first: datetime, newest: datetime, limit: int) -> list[datetime]:
    slots = [newest]
    while len(slots) < limit and (earlier := _slot_before(job, slots[-1], first)):
        slots.append(earlier)
    return slots[::-1]


def _slot_before(job: PlannedJob, slot: datetime, first: datetime) -> datetime | None:
    if slot <= first:
        return None
    return job.trigger.latest_at_or_before(slot - TICK, first)


def _planned(job: PlannedJob, rows: list[Slot], following: datetime | None) -> Plan:
    """Apply `max_runs` and `ends_at`, and set the next slot."""
    remaining_runs = None if job.max_runs is None else max(0, job.max_runs - job.slot_count)
    planned, running = [], 0
    for row in rows:
        if row.status in Execution.LIVE:
            if running == remaining_runs:
                break
            running += 1
        planned.append(row)
    is_over = running == remaining_runs or (following and job.ends_at and following > job.ends_at)
    return Plan(job, planned, None if is_over else following)
