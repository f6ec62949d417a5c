"""Rules about the policies of jobs: attempts, overlap, catch-up and run limits."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from verification.faults.excuses import (
    IN_FLIGHT,
    REPEATING,
    Bounds,
    arrivals,
    by_job,
    faults_between,
    faults_that_interrupt,
    moment_of,
    name_of,
    near_shift,
)
from verification.faults.records import History, Row
from verification.faults.timelines import Period, jobs_of, last_allowed_run_at, periods, policy_of

# A slot claimed within this time after its moment is on time and needs no catch-up.
ON_TIME = 60.0
# How many of the newest slots of a gap run, by policy; the product of the campaign catches up on eight at most.
MADE_UP = {"none": 0, "once": 1, "all": 8}
# How often a run is rescued after its worker died, beyond the requested attempts.
RESCUES = 2


def attempts_are_kept(history: History, bounds: Bounds) -> Iterator[str]:
    """Runs have no more attempts than requested, except rescues after a fault."""
    received = arrivals(history)
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        allowed = policy_of(operations).attempts
        for row in rows_of[job_id] if allowed else ():
            beyond = row.attempt - allowed
            if beyond <= 0:
                continue
            touching = faults_between(history, row.scheduled_for, row.ended_at, and_healing=bounds)
            if beyond > min(RESCUES, sum(fault.kind.startswith(REPEATING) for fault in touching)):
                yield f"{name_of(row)} was tried {row.attempt} times, not {allowed}"
            sent = {delivery.attempt for delivery in received.get(row.id, ())}
            if sent and max(sent) > allowed + RESCUES:
                yield f"{name_of(row)} was sent in attempt {max(sent)}, not {allowed}"


def overlap_is_kept(history: History, bounds: Bounds) -> Iterator[str]:
    """If runs must not overlap, the sink never holds two runs of a job at the same time.

    The only excuse is a fault that ended the caller of the first one while the sink held it.
    """
    held = defaultdict(list)
    for delivery in sorted(history.deliveries, key=lambda delivery: delivery.at):
        if delivery.held and not delivery.is_manual:
            held[delivery.job_id].append(delivery)
    for job_id, operations in jobs_of(history).items():
        if policy_of(operations).overlap == "allow":
            continue
        for one, other in pairwise(held[job_id]):
            is_beside = one.execution != other.execution and other.at < one.at + one.held - 0.1
            if is_beside and not faults_that_interrupt(history, one, other.at):
                yield f"{job_id} ran {one.execution} and {other.execution} side by side at {moment_of(other.at)}"


def catch_up_follows_the_policy(history: History, bounds: Bounds) -> Iterator[str]:
    """After a gap, exactly as many of its newest slots run as the policy says."""
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        policy = policy_of(operations)
        rows = sorted(
            (row for row in rows_of[job_id] if row.cause != "manual"), key=lambda row: row.scheduled_for
        )
        for period in periods(history, operations):
            yield from _missed_too_much(history, rows, period, MADE_UP[policy.catch_up])
        if policy.catch_up == "all":
            continue
        made_up = [row for row in rows if _was_caught_up(history, row)]
        latest = ON_TIME + bounds.heals_within("database")
        for row in made_up if policy.catch_up == "none" and policy.overlap != "queue" else ():
            if (row.first_started_at or 0.0) > row.scheduled_for + latest:
                yield f"{name_of(row)} was made up for, and should not have been"
        for one, other in pairwise(made_up):
            # Only the newest slot may run here: both were due long before the first of them started.
            if other.scheduled_for <= (one.first_started_at or 0.0) - ON_TIME:
                yield f"{name_of(one)} and {name_of(other)} were both made up for, not one of them"


def _was_caught_up(history: History, row: Row) -> bool:
    """Return whether a slot ran long after its moment, unless it was claimed on time before a clock jump."""
    if row.first_started_at is None or row.first_started_at <= row.scheduled_for + ON_TIME:
        return False
    return not any(
        fault.kind.startswith("clock") and _was_claimed_before(history, row, fault.began_at)
        for fault in history.faults
    )


def _was_claimed_before(history: History, row: Row, moment: float) -> bool:
    """Return whether a slot was in the ledger by then: it was due just before, or a later row had arrived."""
    if row.scheduled_for > moment:
        return False
    return row.scheduled_for >= moment - IN_FLIGHT or any(
        delivery.execution > row.id and delivery.at <= moment for delivery in history.deliveries
    )


def _missed_too_much(history: History, rows: Sequence[Row], period: Period, count: int) -> Iterator[str]:
    missed = [row for row in rows if row.status == "missed" and period.holds(row.slot)]
    for row in missed:
        if near_shift(history, row.until):
            # A gap ends where a clock was corrected: later slots are judged separately.
            continue
        for slot in period.next_slots(row.until, count):
            if any(other.slot <= slot <= other.until for other in missed if other is not row):
                yield f"{name_of(row)} is missed, and so is {moment_of(slot)}, of which {count} should have run"


def limits_are_kept(history: History, bounds: Bounds) -> Iterator[str]:
    """A job has no more runs than requested and none after its end, and it ends with its last run."""
    keys = defaultdict(dict)
    for delivery in history.deliveries:
        if delivery.verdict == "accepted" and not delivery.is_manual:
            keys[delivery.job_id][delivery.key] = delivery.at
    rows_of = by_job(history.rows)
    for job_id, operations in jobs_of(history).items():
        policy, rows = policy_of(operations), [row for row in rows_of[job_id] if row.cause != "manual"]
        for row in rows:
            if policy.ends_at and row.attempt and row.scheduled_for > policy.ends_at:
                yield f"{name_of(row)} ran after the end that was asked for, {moment_of(policy.ends_at)}"
        if policy.max_runs is None:
            continue
        ran = sorted(keys[job_id].values())
        if len(ran) > policy.max_runs:
            yield f"{job_id} was accepted for {len(ran)} slots, not {policy.max_runs}"
        started = sum(row.attempt > 0 for row in rows)
        if started > policy.max_runs:
            yield f"{job_id} ran {started} times, not {policy.max_runs}"
        latest = bounds.heals_within("database") + IN_FLIGHT
        is_spent = last_allowed_run_at(rows, policy_of(operations, for_certain=True)) < float("inf")
        for op in operations:
            is_over = "already completed" in op.words
            if is_over and not policy.ends_at and not is_spent:
                yield f"{job_id} was over before its {policy.max_runs} runs, at {moment_of(op.sent_at)}"
            is_alive = op.verb in ("pause", "cancel") and op.outcome == "acknowledged"
            # While somebody holds its row, nobody can end it, and whoever asks waits, too.
            is_held = any(
                fault.kind == "held-row"
                and fault.job_id == job_id
                and fault.began_at <= op.sent_at <= fault.ended_at
                for fault in history.faults
            )
            if (
                is_alive
                and not is_held
                and len(ran) >= policy.max_runs
                and op.sent_at > ran[policy.max_runs - 1] + latest
            ):
                yield f"{job_id} was not over after its {policy.max_runs} runs, at {moment_of(op.sent_at)}"
