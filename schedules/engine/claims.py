"""How due work is taken: one transaction writes the ledger rows and moves every job to its next slot."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from schedules.engine import gaps
from schedules.engine.bulk import update_rows
from schedules.engine.clusters import cover
from schedules.engine.pausing import note
from schedules.engine.slots import Plan, Slot, plan
from schedules.models import Execution, Job, Worker

logger = logging.getLogger(__name__)

Status = Execution.Status

# What a claim needs of a job; the rest of the row is the runner's business.
_JOB_COLUMNS = (
    "pk",
    "owner_id",
    "name",
    "task",
    "status",
    "next_run_at",
    *Job.TRIGGER_FIELDS,
    "created_at",
    "slot_count",
    "overlap",
    "catch_up",
    "timeout",
)


@dataclass(frozen=True, slots=True)
class Claim:
    """An execution that is ours to start until its lease ends."""

    execution_id: int
    attempt: int
    task: str
    timeout: timedelta


def claim(worker_id: int, now: datetime, limit: int, *, but_not: Sequence[str] = ()) -> list[Claim]:
    """Take up to `limit` executions that are due, for this worker; tasks in `but_not` are left for later."""
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    with transaction.atomic():
        claims = _claim_ready(worker_id, now, lease_until, limit, but_not)
        claims += _claim_due(worker_id, now, lease_until, limit - len(claims), but_not)
        if claims:
            Worker.objects.filter(pk=worker_id).update(claimed_count=F("claimed_count") + len(claims))
    return claims


def _claim_ready(
    worker_id: int, now: datetime, lease_until: datetime, limit: int, but_not: Sequence[str]
) -> list[Claim]:
    """Take queued runs: run-now, retries, and what an overlap or a hand-back let go."""
    rows = list(
        Execution.objects.ready(now)
        .exclude(task__in=but_not)
        .select_for_update(skip_locked=True, of=("self",))
        .order_by("available_at")
        .values_list("pk", "attempt", "task", "job__timeout", "owner__is_active", "cause", "job_id")[:limit]
    )
    barred = [row[0] for row in rows if not row[4]]
    if barred:
        Execution.objects.filter(pk__in=barred).update(
            status=Status.CANCELLED, finished_at=now, reason="The owner's account is not active."
        )
    taken = [row for row in rows if row[4]]
    Execution.objects.filter(pk__in=[row[0] for row in taken]).update(
        status=Status.CLAIMED, worker_id=worker_id, claimed_at=now, lease_until=lease_until, available_at=None
    )
    fresh_manual = Counter(row[6] for row in taken if row[5] == Execution.Cause.MANUAL and row[1] == 0)
    for times in set(fresh_manual.values()):
        job_ids = [job_id for job_id, count in fresh_manual.items() if count == times]
        Job.objects.filter(pk__in=job_ids).update(run_count=F("run_count") + times)
    return [Claim(pk, attempt, task, timeout or timedelta()) for pk, attempt, task, timeout, *_ in taken]


def _claim_due(
    worker_id: int, now: datetime, lease_until: datetime, limit: int, but_not: Sequence[str]
) -> list[Claim]:
    """Turn the due slots of jobs into ledger rows, claimed for this worker where they are to run."""
    if limit <= 0:
        return []
    jobs = list(
        Job.objects.due(now)
        .exclude(task__in=but_not)
        .select_for_update(skip_locked=True, of=("self",))
        .annotate(owner_is_active=F("owner__is_active"))
        .only(*_JOB_COLUMNS)
        .order_by("next_run_at")[:limit]
    )
    if not jobs:
        return []
    job_ids = [job.pk for job in jobs]
    live = Counter(Execution.objects.live().filter(job_id__in=job_ids).values_list("job_id", flat=True))
    plans = [_plan_safely(job, now, live[job.pk]) for job in jobs]
    plans = _without_known_slots(plans)
    plain = {item.job.pk: item.job for item in plans if item.is_plain}
    claims = _insert_plain(plain, worker_id, lease_until, now)
    claims += _insert_others([item for item in plans if not item.is_plain], worker_id, lease_until, now)
    _advance(plans, live)
    return claims


def _plan_safely(job: Job, now: datetime, live: int) -> Plan:
    """Plan one job; a row that no longer makes sense is recorded and paused, and harms nobody else."""
    try:
        return plan(
            job,
            now,
            live=live,
            owner_is_active=job.owner_is_active,  # type: ignore[attr-defined]
            was_covered=cover,
        )
    except Exception as error:
        logger.exception("Job %s cannot be planned", job.pk)
        assert job.next_run_at is not None
        words = f"Its schedule cannot be read: {error}"[:200]
        _pause_broken(job, now, words)
        return Plan(job, [Slot(job.next_run_at, Status.FAILED, reason=words, error=words)])


def _pause_broken(job: Job, now: datetime, words: str) -> None:
    # Assigned here, so that _advance leaves the job where this put it.
    job.status = Job.Status.PAUSED
    Job.objects.filter(pk=job.pk).update(
        status=job.status,
        next_run_at=None,
        paused_at=now,
        pause_reason=words,
        last_error=words,
        updated_at=now,
    )
    note(job, "pause", now, {"reason": words})


def _without_known_slots(plans: list[Plan]) -> list[Plan]:
    """Drop slots that have a row already: a clock that went back must not repeat them."""
    moments = {slot.at for item in plans for slot in item.slots}
    known = set(
        Execution.objects.filter(job_id__in=[item.job.pk for item in plans], scheduled_for__in=moments)
        .exclude(cause=Execution.Cause.MANUAL)
        .values_list("job_id", "scheduled_for")
    )
    if not known:
        return plans
    return [
        Plan(
            item.job,
            [slot for slot in item.slots if (item.job.pk, slot.at) not in known],
            item.next_run_at,
        )
        for item in plans
    ]


def _insert_plain(jobs: dict[int, Job], worker_id: int, lease_until: datetime, now: datetime) -> list[Claim]:
    """Write the rows of plain slots set-based: job columns are copied inside the database."""
    if not jobs:
        return []
    execution, job = Execution._meta.db_table, Job._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {execution} (job_id, owner_id, job_name, task, scheduled_for, cause, status, reason,"  # noqa: S608
            " attempt, worker_id, claimed_at, lease_until, leased_to, error, traceback, slots)"
            " SELECT id, owner_id, name, task, next_run_at, %s, %s, '', 0, %s, %s, %s, '', '', '', 1"
            f" FROM {job} WHERE id IN ({_integers(jobs)}) RETURNING id, job_id",
            [
                Execution.Cause.SCHEDULE.value,
                Status.CLAIMED.value,
                worker_id,
                connection.ops.adapt_datetimefield_value(now),
                connection.ops.adapt_datetimefield_value(lease_until),
            ],
        )
        return [
            Claim(execution_id, 0, jobs[job_id].task, jobs[job_id].timeout)
            for execution_id, job_id in cursor.fetchall()
        ]


def _insert_others(
    plans: Sequence[Plan], worker_id: int, lease_until: datetime, now: datetime
) -> list[Claim]:
    rows = [gaps.row_of(item.job, slot, now) for item in plans for slot in item.slots]
    for row in rows:
        if row.status == Status.CLAIMED:
            row.worker_id, row.claimed_at, row.lease_until = worker_id, now, lease_until
    Execution.objects.bulk_create(rows)
    timeouts = {item.job.pk: item.job.timeout for item in plans}
    return [
        Claim(row.pk, 0, row.task, timeouts[row.job_id or 0]) for row in rows if row.status == Status.CLAIMED
    ]


def _advance(plans: list[Plan], live: Counter[int]) -> None:
    """Move every job to its next slot, or to its end."""
    rows = []
    for item in plans:
        if item.job.status != Job.Status.PENDING:
            continue
        running = len(item.to_run)
        status = _status_after(item, is_busy=bool(running or live[item.job.pk]))
        rows.append((item.job.pk, item.next_run_at, status, running))
    update_rows(
        Job,
        "next_run_at = {next_run_at}, status = {status},"
        " slot_count = slot_count + {slot_count}, run_count = run_count + {slot_count}",
        ("id", "next_run_at", "status", "slot_count"),
        rows,
    )


def _status_after(item: Plan, *, is_busy: bool) -> str:
    if item.next_run_at:
        return Job.Status.PENDING.value
    if is_busy:
        return Job.Status.RUNNING.value
    if item.job.trigger_type == Job.TriggerType.ONCE and item.slots:
        return Job.Status.FAILED.value
    return Job.Status.COMPLETED.value


def _integers(values: Iterable[int]) -> str:
    return ",".join(str(int(value)) for value in values)
