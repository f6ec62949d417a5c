"""The catch-up limit for runs in the ledger: after an outage or a restore, end those that are too old to start."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.conf import settings

from schedules.engine.gaps import PlannedJob
from schedules.engine.history import Outcome, uncount_missed
from schedules.engine.incidents import Missed, raise_missed
from schedules.engine.plan import ON_TIME
from schedules.engine.settle import conclude
from schedules.models import Execution, Job
from schedules.models.executions import HELD_UNTIL
from schedules.when.durations import in_words

Status = Execution.Status
Cause = Execution.Cause


def start_limit(job: PlannedJob, cause: str) -> timedelta:
    """Return how long a run may wait for a worker; the catch-up policy of its job does not apply to manual runs."""
    if job.catch_up == Job.CatchUp.NONE and cause != Cause.MANUAL:
        return ON_TIME
    return catch_up_window()


def catch_up_window() -> timedelta:
    """Return how long after its slot a run may start."""
    return max(ON_TIME, timedelta(hours=settings.CRONTY_CATCH_UP_HOURS))


def is_too_late(row: Execution, job: Job, since: datetime, now: datetime) -> bool:
    """Return whether a run that could have started `since` then must not start any more."""
    if row.reason.startswith(HELD_UNTIL):
        # Its slot may be long past, and its one message stands for others.
        return now - since > catch_up_window()
    if now - since > start_limit(job, row.cause):
        return True
    # Retries may run long after their slot.
    return (
        not row.attempt
        and row.cause not in Execution.UNPLANNED
        and now - row.scheduled_for > catch_up_window()
    )


def end_late_runs(late: Sequence[tuple[Execution, Job]], now: datetime) -> None:
    """End runs that must not start any more: as missed, failed if a retry was due, lost if a worker died."""
    if not late:
        return
    # Read again: pausing a job in this transaction has withdrawn its runs.
    live = {
        pk: (status, error)
        for pk, status, error in Execution.objects.live()
        .filter(pk__in=[row.pk for row, _ in late])
        .values_list("pk", "status", "error")
    }
    outcomes: list[Outcome] = []
    missed: list[int] = []
    ended: dict[tuple[Execution.Status, str], list[int]] = defaultdict(list)
    for row, job in late:
        if row.pk not in live:
            continue
        status_before, error = live[row.pk]
        is_retry = bool(error) and status_before == Status.QUEUED
        status, reason = _ending(row, job, is_retry=is_retry)
        ended[status, reason].append(row.pk)
        if status == Status.MISSED and row.cause not in Execution.UNPLANNED:
            missed.append(job.pk)
        error = reason if status == Status.LOST else error
        outcomes.append(Outcome(row.pk, row.attempt, job.pk, status, now, error=error, reason=reason))
    for (status, reason), ids in ended.items():
        errors = {"error": reason} if status == Status.LOST else {}
        Execution.objects.filter(pk__in=ids).end(status, now, reason, **errors)
    missed += _end_waiting_runs([job for _, job in late], now)
    uncount_missed(missed)
    if missed:
        since = {row.job_id: row.scheduled_for for row, _ in late}
        reason = "No worker could start it in time."
        raise_missed([Missed(job_id, 1, reason, since[job_id]) for job_id in missed], now)
    conclude(outcomes)


def _ending(row: Execution, job: Job, *, is_retry: bool) -> tuple[Execution.Status, str]:
    if not row.attempt:
        return Status.MISSED, why_never_started(start_limit(job, row.cause))
    limit = in_words(start_limit(job, row.cause))
    if is_retry:
        return Status.FAILED, f"No worker could retry it within its catch-up limit of {limit}."
    reason = f"The worker crashed during this run, and the catch-up limit of {limit} passed before it could start again."
    return Status.LOST, reason


def why_never_started(limit: timedelta) -> str:
    return f"No worker could start it within its catch-up limit of {in_words(limit)}."


def _end_waiting_runs(jobs: Iterable[Job], now: datetime) -> list[int]:
    """End the queued runs behind those that were too late, because nothing else will start them.

    Return the job of each.
    """
    strict = [job.pk for job in jobs if job.catch_up == Job.CatchUp.NONE]
    if not strict:
        return []
    waiting = Execution.objects.live().filter(
        job_id__in=strict, status=Status.QUEUED, attempt=0, available_at=None, scheduled_for__lt=now - ON_TIME
    )
    job_of = dict(waiting.values_list("pk", "job_id"))
    Execution.objects.filter(pk__in=list(job_of)).end(Status.MISSED, now, why_never_started(ON_TIME))
    return list(job_of.values())
