"""What must be true after a simulation: each slot has one row, nothing is lost or doubled, nothing is early or too late."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from django.conf import settings

from schedules.engine.rescue import RESCUES
from schedules.engine.upkeep.run_pruning import PRUNE_OLD_EVERY
from schedules.models import FRESH_FOR, Execution, Job
from schedules.worker.upkeep import UPKEEP_EVERY
from verification.hosts.fleet import Fault, Story
from verification.hosts.simulated_host import CLOCK_ERROR, PRUNE_EVERY, Call

# How late a run may be for any reason but a fault, in seconds.
ON_TIME = 0.5


def violations(story: Story) -> list[str]:
    """Return what is wrong, in words."""
    rows: dict[str, list[Execution]] = defaultdict(list)
    for row in Execution.objects.exclude(cause="manual").order_by("scheduled_for"):
        rows[row.job_name].append(row)
    calls: dict[tuple[str, datetime], list[Call]] = defaultdict(list)
    for call in story.calls:
        calls[call.job, call.slot].append(call)
    found = list(_pruning(story))
    for job in story.jobs:
        found += _slots(job, rows[job.name], story)
        for row in rows[job.name]:
            found += _run(row, calls.pop((job.name, row.scheduled_for), []), job, story)
    return found + [f"{job_name} {slot}: called without a row" for job_name, slot in calls]


def _slots(job: Job, rows: list[Execution], story: Story) -> Iterator[str]:
    """Each slot has exactly one row, and each row is final."""
    expected = Counter(_expected(job, datetime.fromtimestamp(story.slots_until, UTC)))
    covered: Counter[datetime] = Counter()
    for row in rows:
        between = [
            slot for slot in expected if row.scheduled_for <= slot <= (row.last_slot or row.scheduled_for)
        ]
        covered.update(between)
        if len(between) != row.slots:
            yield f"{job.name} {row.scheduled_for}: {row.slots} slots in one row, but {len(between)} were due"
        if row.status not in Execution.FINAL:
            yield f"{job.name} {row.scheduled_for}: still {row.status}"
    for slot in (expected - covered).keys() | (covered - expected).keys():
        yield f"{job.name} {slot}: {covered[slot]} rows"


def _expected(job: Job, end: datetime) -> Iterator[datetime]:
    """Compute the slots of a job without the code under test."""
    match job.trigger_type:
        case "once":
            assert job.run_at
            yield job.run_at
            return
        case "interval":
            assert job.anchor_at
            assert job.every
            slot, step = job.anchor_at, job.every
        case _:
            step = timedelta(minutes=1)
            slot = job.created_at.replace(second=0, microsecond=0) + step
    while slot <= end:
        yield slot
        slot += step


def _run(row: Execution, calls: list[Call], job: Job, story: Story) -> Iterator[str]:
    """The row says what the task saw; a repeat has a reason; the first call is neither early nor too late."""
    name = f"{row.job_name} {row.scheduled_for}"
    if [call.attempt for call in calls] != [*range(1, row.attempt + 1)]:
        yield f"{name}: attempt {row.attempt} by the ledger, but {[call.attempt for call in calls]} by the task"
    if (row.status in (Execution.Status.SUCCEEDED, Execution.Status.LOST)) > bool(calls):
        yield f"{name}: {row.status} without a call"
    if not calls:
        return
    rescues = sum(_was_disturbed(one, other.at, story.faults) for one, other in pairwise(calls))
    if len(calls) > job.attempts + min(rescues, RESCUES):
        yield f"{name}: doubled, {len(calls)} calls after {rescues} faults of its hosts"
    due = row.scheduled_for.timestamp()
    late = calls[0].at - due
    if late < -CLOCK_ERROR:
        yield f"{name}: {-late:.3f} s early"
    # Otherwise a run may have to wait for the one before it.
    if job.overlap == Job.Overlap.ALLOW or job.trigger_type == Job.TriggerType.ONCE:
        allowed = _latest_start(due, story) - due
        if late > allowed:
            yield f"{name}: {late:.1f} s late instead of at most {allowed:.1f} s"


def _was_disturbed(call: Call, until: float, faults: list[Fault]) -> bool:
    """Return whether the host of a call had a fault before the next attempt."""
    return any(
        fault.host == call.host and fault.since <= until and fault.until >= call.at for fault in faults
    )


def _latest_start(due: float, story: Story) -> float:
    """Return when a run must have started: at once, or a lease and a sweep after each fault that may have hit its host.

    Every fault counts that begins before that time, because the next host may fail, too.
    """
    latest = due + ON_TIME
    delay = _takeover()
    for fault in sorted(story.faults, key=lambda fault: fault.since):
        if fault.kind != "clock" and fault.since <= latest and fault.until >= due - delay:
            latest = max(latest, fault.since + delay + ON_TIME)
    return latest


def _takeover() -> float:
    """Return how long others need to take over from a host: its lease, its silence, or their own pause after a fault."""
    lease = settings.CRONTY_LEASE_SECONDS
    # A claim is renewed with one more heartbeat before its probe returns.
    return max(lease + UPKEEP_EVERY, FRESH_FOR.total_seconds()) + 2 * UPKEEP_EVERY


def _pruning(story: Story) -> Iterator[str]:
    """Whichever cluster is the oldest prunes: no run is much older than the history goes back."""
    slack = PRUNE_OLD_EVERY + FRESH_FOR + timedelta(seconds=2 * PRUNE_EVERY)
    oldest = datetime.fromtimestamp(story.end, UTC) - timedelta(days=settings.CRONTY_HISTORY_DAYS) - slack
    old = Execution.objects.filter(cause="manual", scheduled_for__lt=oldest).count()
    if old:
        yield f"{old} runs should have been pruned"
