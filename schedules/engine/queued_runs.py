"""Queued runs: claim manual runs, retries and released runs, and end those that must not start any more."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db.models import F, Q, Value

from schedules.engine.event_deliveries import free_places
from schedules.engine.overlaps import busy_jobs, must_wait, put_in_line
from schedules.engine.quiet_hours import hold_runs
from schedules.engine.settle import AT_MOST_ONCE, call_off, lose
from schedules.engine.too_late import end_late_runs, is_too_late
from schedules.engine.unpinged import end_unpinged
from schedules.models import Execution, Job
from schedules.models.executions import job_was_stopped
from schedules.models.people import is_active
from schedules.tasks.heartbeat import HEARTBEAT

Status = Execution.Status

_COLUMNS = (
    *("pk", "attempt", "task", "cause", "job_id", "scheduled_for", "available_at", "claimed_at", "reason"),
)
_COLUMNS_OF_JOB = (
    *("pk", "public_id", "task", "status", "deleted_at", "timeout", "catch_up", "at_most_once", "overlap"),
)


def claim_queued(
    cluster_id: int,
    now: datetime,
    lease_until: datetime,
    limit: int,
    *,
    exclude_tasks: Sequence[str],
    only_tasks: Sequence[str],
) -> list[tuple[Execution, Job]]:
    """Claim runs that are already in the ledger, and return them with their jobs."""
    ready = Execution.objects.ready(now).exclude(task__in=exclude_tasks)
    rows = list(
        (ready.filter(task__in=only_tasks) if only_tasks else ready)
        .select_for_update(skip_locked=True, of=("self",))
        .order_by("available_at")
        .annotate(owner_is_active=is_active("owner__") or Value(True), has_failed=~Q(error=""))
        .only(*_COLUMNS)[:limit]
    )
    if not rows:
        return []
    # Leave locked jobs to the next claim: a claim that never waits cannot deadlock.
    jobs = (
        Job.objects.filter(pk__in={row.job_id for row in rows})
        .select_for_update(skip_locked=True, of=("self",))
        .only(*_COLUMNS_OF_JOB)
        .in_bulk()
    )
    claimed: list[tuple[Execution, Job]] = []
    late: list[tuple[Execution, Job]] = []
    overlapping: list[tuple[Execution, Job]] = []
    lost: list[tuple[int, int, int | None]] = []
    called_off: dict[str, list[tuple[int, int, int | None]]] = defaultdict(list)
    unpinged: list[Execution] = []
    startable = [
        row for row in rows if (job := jobs.get(row.job_id or 0)) and not _reason_not_to_start(row, job)
    ]
    if held := hold_runs(startable, jobs, now):
        rows = [row for row in rows if row.pk not in held]
    busy = busy_jobs(rows, jobs)
    places = free_places(rows)
    in_line: list[int] = []
    for row in rows:
        job = jobs.get(row.job_id or 0)
        if reason := _reason_not_to_start(row, job):
            called_off[reason].append((row.pk, row.attempt, row.job_id))
        elif job and row.task == HEARTBEAT:
            unpinged.append(row)
        elif job and job.at_most_once and row.attempt and not row.has_failed:  # type: ignore[attr-defined]
            # A rescue queued it again before its job got this policy.
            lost.append((row.pk, row.attempt, row.job_id))
        elif job and row.cause == Execution.Cause.EVENT and not places[job.pk]:
            in_line.append(row.pk)
        elif job and must_wait(row, job, busy):
            overlapping.append((row, job))
        elif job:
            is_late = is_too_late(row, job, row.available_at or now, now)
            (late if is_late else claimed).append((row, job))
            if not is_late and row.cause == Execution.Cause.EVENT:
                places[job.pk] -= 1
    Execution.objects.filter(pk__in=[row.pk for row, _ in claimed]).update(
        status=Status.CLAIMED,
        cluster_id=cluster_id,
        claimed_at=now,
        lease_until=lease_until,
        available_at=None,
    )
    _count_started_runs([row for row, _ in claimed])
    put_in_line(overlapping, now)
    Execution.objects.filter(pk__in=in_line).update(available_at=None, reason="Waiting for earlier events.")
    for reason, ended in called_off.items():
        call_off(ended, now, reason)
    lose(lost, now, f"The worker crashed during this run. {AT_MOST_ONCE}")
    end_late_runs(late, now)
    end_unpinged(unpinged, now)
    return claimed


def _reason_not_to_start(row: Execution, job: Job | None) -> str:
    """Return why a queued run must not start any more, or an empty text."""
    if row.job_id is None:
        return "The job no longer exists."
    if job is None:
        return ""
    if not row.owner_is_active:  # type: ignore[attr-defined]
        return "The owner's account is not active."
    if row.task != job.task:
        # The job's arguments belong to its new task.
        return "The job's action was changed before this run."
    is_requested = row.cause == Execution.Cause.MANUAL and row.attempt == 0 and job.deleted_at is None
    if is_requested or not job_was_stopped(row.cause, job.status, job.deleted_at):
        return ""
    return "The job was stopped before this run."


def _count_started_runs(rows: Iterable[Execution]) -> None:
    fresh = Counter(
        row.job_id or 0 for row in rows if row.cause in Execution.STARTED and row.claimed_at is None
    )
    for times in set(fresh.values()):
        job_ids = [job_id for job_id, count in fresh.items() if count == times]
        Job.objects.filter(pk__in=job_ids).update(run_count=F("run_count") + times)
