"""Rules about runs that are late, early, missed, failed or unending, and about what a job counts."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from verification.faults.excuses import (
    GO_ON_CLAIMING,
    ONE_HOST,
    SLACK,
    STOPPED,
    WITHOUT_A_GAP,
    Bounds,
    by_job,
    faults_between,
    hits,
    moment_of,
    name_of,
    offset_in,
    was_set_back_before_start,
)
from verification.faults.records import Delivery, Fault, History, Row
from verification.faults.timelines import jobs_of, offsets_between, policy_of

# What runs say whose secret no key of their host can read: no fault is an excuse for that.
UNREADABLE = "cannot be read with this installation's secret key"
# As many recent outcomes as a job keeps.
KEPT = 30
# The longest that a run of the campaign takes without a fault: its time limits and its retries.
LONGEST_RUN = 15.0


def missed_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status != "missed":
            continue
        if not _excuses(history, row, row.until, bounds):
            yield f"{name_of(row)} is missed although all was well"


def failed_has_a_reason(history: History, bounds: Bounds) -> Iterator[str]:
    for row in history.rows:
        if row.status not in ("failed", "lost") or "poison" in row.task or row.reason.startswith(STOPPED):
            continue
        if UNREADABLE in row.error or not _excuses(history, row, row.ended_at, bounds):
            yield f"{name_of(row)} is {row.status} although all was well: {row.error or row.reason}"


def _excuses(history: History, row: Row, end: float, bounds: Bounds) -> list[Fault]:
    """Return the faults that can have prevented a run; a restart in good order prevents none."""
    found = faults_between(history, row.scheduled_for, end, job_id=row.job_id, and_healing=bounds)
    # After a further attempt, the row names the host of that one only.
    host = row.host if row.attempt == 1 else ""
    return [
        fault
        for fault in found
        if hits(fault, host) and (fault.job_id or not fault.kind.startswith(WITHOUT_A_GAP))
    ]


def nothing_is_late(history: History, bounds: Bounds) -> Iterator[str]:
    """Runs start within the bound, or within the recovery time after the end of a fault.

    A run that waits for the previous one counts as late from the end of that run.
    """
    waiting = {job for job, ops in jobs_of(history).items() if policy_of(ops).overlap == "queue"}
    ends = defaultdict(list)
    for row in history.rows:
        if row.job_id in waiting and row.finished_at is not None:
            ends[row.job_id].append(row.finished_at)
    hosts = {one.execution: one.host for one in history.deliveries if one.attempt == 1}
    for row in history.rows:
        if row.first_started_at is None or row.cause == "manual" or "poison" in row.task:
            continue
        # After a further attempt, the row names the host of that one.
        host = row.host if row.attempt == 1 else hosts.get(row.id, "")
        before = [at for at in ends[row.job_id] if at <= row.first_started_at]
        late = row.first_started_at - max(row.scheduled_for, *before, 0.0)
        if late <= bounds.late(row):
            continue
        faults = faults_between(
            history, row.scheduled_for, row.first_started_at, job_id=row.job_id, and_healing=bounds
        )
        if not any(_explains(history, fault, row, host, late, bounds) for fault in faults):
            yield f"{name_of(row)} started {late:.1f} s late"


def _explains(history: History, fault: Fault, row: Row, host: str, late: float, bounds: Bounds) -> bool:
    """Return whether a fault explains a late start: while one host is away, the other takes over its jobs in time."""
    is_spared = not hits(fault, host) and not _may_have_claimed(history, fault, row)
    if is_spared or (fault.kind.startswith(WITHOUT_A_GAP) and fault.job_id != row.job_id):
        return late <= bounds.restart_lateness * bounds.pace
    if fault.kind.startswith(ONE_HOST) or not hits(fault, host):
        return late <= bounds.taken_over_within
    recovered_at = fault.ended_at + offset_in(history, fault) + bounds.heals_within(fault.kind)
    return (row.first_started_at or 0.0) <= recovered_at


def _may_have_claimed(history: History, fault: Fault, row: Row) -> bool:
    """Return whether the host of a fault can have claimed a run before another one took it over and started it."""
    due_at = row.scheduled_for - max(0.0, offset_in(history, fault))
    return fault.kind.startswith(GO_ON_CLAIMING) or due_at <= (fault.struck_at or fault.ended_at) + SLACK


def nothing_is_early(history: History, bounds: Bounds) -> Iterator[str]:
    slots = {row.id: row.scheduled_for for row in history.rows}
    for row in history.rows:
        if row.first_started_at is not None and row.first_started_at < row.scheduled_for - 0.001:
            if row.cause == "manual" or was_set_back_before_start(history, row, bounds):
                continue
            yield f"{name_of(row)} started {row.scheduled_for - row.first_started_at:.3f} s early"
    for delivery in history.deliveries:
        ahead = max(0.0, *offsets_between(history, delivery.at - 60, delivery.at))
        slot = slots.get(delivery.execution, 0.0)
        # A host with a wrong clock measures its error, to within the time that the database takes to answer.
        near = bounds.clock_error * bounds.pace if _is_skewed(history, delivery) else 0.001
        if delivery.at + ahead < slot - near and "-manual" not in delivery.key:
            yield f"execution {delivery.execution} was delivered {slot - delivery.at:.3f} s early"


def _is_skewed(history: History, delivery: Delivery) -> bool:
    return any(
        fault.kind.startswith("skew")
        and hits(fault, delivery.host)
        and fault.began_at <= delivery.at <= fault.ended_at + SLACK
        for fault in history.faults
    )


def counters_agree_with_the_ledger(history: History, bounds: Bounds) -> Iterator[str]:
    """A job has counted every slot that it ran exactly once, and every success exactly once."""
    rows_of = by_job(history.rows)
    known = jobs_of(history)
    for job in history.jobs:
        if job.job_id not in known:
            continue
        rows = rows_of[job.job_id]
        ran = sum(row.cause != "manual" and row.status not in ("skipped", "missed") for row in rows)
        if ran != job.slot_count:
            yield f"{job.job_id} has counted {job.slot_count} slots, but {ran} rows"
        succeeded = Counter(row.status for row in rows)["succeeded"]
        if len(job.recent) < KEPT and job.recent.count("S") != succeeded:
            yield f"{job.job_id} has counted {job.recent.count('S')} successes, but {succeeded} rows"


def runs_end_in_time(history: History, bounds: Bounds) -> Iterator[str]:
    """A run that has started ends within its time limits, or within the recovery time after a fault."""
    asked = {job: policy_of(operations) for job, operations in jobs_of(history).items()}
    longest = LONGEST_RUN * bounds.pace
    for row in history.rows:
        if row.first_started_at is None or row.finished_at is None or row.task == "prompt":
            continue
        if row.job_id not in asked or asked[row.job_id].overlap == "queue":
            continue
        took = row.finished_at - row.first_started_at
        if took <= longest:
            continue
        faults = faults_between(
            history, row.first_started_at, row.finished_at, job_id=row.job_id, and_healing=bounds
        )
        if not any(
            row.finished_at
            <= fault.ended_at + offset_in(history, fault) + bounds.heals_within(fault.kind) + longest
            for fault in faults
        ):
            yield f"{name_of(row)} ended {took:.1f} s after its start, at {moment_of(row.finished_at)}"
