"""Rules about what a job's own columns say, and about runs that take too long to end."""

from collections import Counter
from collections.abc import Iterator

from verification.faults.excuses import Bounds, by_job, faults_between, moment_of, name_of, offset_in
from verification.faults.records import History
from verification.faults.timelines import jobs_of, policy_of

# As many recent outcomes as a job keeps.
KEPT = 30
# The longest that a run of the campaign takes without a fault: its time limits and its retries.
LONGEST_RUN = 15.0


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
