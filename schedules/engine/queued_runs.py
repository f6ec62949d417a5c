"""Queued runs: claim manual runs, retries and released runs, and end those that must not start any more.

After an outage or a restore, that includes runs that are too old. The overlap policy is applied here to runs that another
job or a trigger address started, and in `plan.py` to slots.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q, Value

from schedules.engine.event_deliveries import free_places
from schedules.engine.gaps import PlannedJob
from schedules.engine.history import Outcome, uncount_missed
from schedules.engine.incidents import Missed, raise_missed
from schedules.engine.pings import end_unpinged
from schedules.engine.plan import HELD_RUNS, ON_TIME
from schedules.engine.quiet_hours import hold_runs
from schedules.engine.settle import AT_MOST_ONCE, call_off, conclude, lose
from schedules.models import Execution, Job
from schedules.models.executions import HELD_UNTIL, job_was_stopped
from schedules.models.people import is_active
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.durations import in_words

Status = Execution.Status
_COLUMNS = (
    *("pk", "attempt", "task", "cause", "job_id", "scheduled_for", "available_at", "claimed_at", "reason"),
)
_COLUMNS_OF_JOB = (
    *("pk", "public_id", "task", "status", "deleted_at", "timeout", "catch_up", "at_most_once", "overlap"),
)
Cause = Execution.Cause


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


def _obeys_overlap(row: Execution, job: Job) -> bool:
    # Runs that quiet hours have held are ready at the same moment.
    is_new = row.attempt == 0 and row.claimed_at is None and not row.reason.startswith(HELD_UNTIL)
    return is_new and row.cause in (Cause.AFTER, Cause.TRIGGER) and job.overlap != Job.Overlap.ALLOW


def busy_jobs(rows: Sequence[Execution], jobs: Mapping[int, Job]) -> set[int]:
    """Return the jobs whose new runs would overlap with one under way; nearly always, this costs no query."""
    job_ids = [
        job.pk for row in rows if (job := jobs.get(row.job_id or 0)) is not None and _obeys_overlap(row, job)
    ]
    if not job_ids:
        return set()
    is_retried = Q(status=Status.QUEUED, attempt__gt=0)
    live = Execution.objects.live().filter(
        Q(status__in=(*Execution.HELD, Status.WAITING)) | is_retried, job__in=job_ids
    )
    return {job_id or 0 for job_id in live.exclude(cause=Cause.REMINDER).values_list("job_id", flat=True)}


def must_wait(row: Execution, job: Job, busy: set[int]) -> bool:
    """Return whether a run would overlap with another one; if not, its job is busy for the runs after it."""
    if not _obeys_overlap(row, job):
        return False
    if job.pk in busy:
        return True
    busy.add(job.pk)
    return False


def put_in_line(overlapping: Sequence[tuple[Execution, Job]], now: datetime) -> None:
    """Skip runs that would overlap with another one, or let them wait, as their jobs say."""
    for row, job in overlapping:
        rows = Execution.objects.filter(pk=row.pk)
        waiting = Execution.objects.live().filter(job=job, status=Status.QUEUED, available_at=None)
        if job.overlap == Job.Overlap.QUEUE and waiting.count() < HELD_RUNS:
            rows.update(available_at=None, reason="Waiting for the previous run.")
            continue
        reason = "The previous run was still running."
        if job.overlap == Job.Overlap.QUEUE:
            reason = f"{HELD_RUNS} runs were already waiting."
        rows.update(status=Status.SKIPPED, finished_at=now, available_at=None, reason=reason)


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
