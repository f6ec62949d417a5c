"""The claim: one transaction that writes the ledger rows of due slots and moves each job to its next slot."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import DatabaseError, Error, transaction
from django.db.models import F

from schedules import limits
from schedules.engine.gaps import PlannedJob, Slot, Span, unrecorded
from schedules.engine.incidents import Missed, raise_missed, raise_unreadable
from schedules.engine.interruptions import Interruption, ReasonMissed
from schedules.engine.pauses import pause_unreadable
from schedules.engine.plan import Plan, WhyMissed, plan
from schedules.engine.queued_runs import claim_queued
from schedules.engine.quiet_hours import Hold, holds_of
from schedules.engine.sql import claims as sql
from schedules.engine.sql.claims import DueJob
from schedules.engine.sql.statements import is_lock_timeout, update_rows
from schedules.models import Execution, Job
from schedules.tasks.heartbeat import HEARTBEAT, grace_of
from schedules.tasks.placeholders import NOTIFICATION
from schedules.when.triggers import unreadable

logger = logging.getLogger(__name__)

Status = Execution.Status

# How many seconds one claim may spend on planning; after an outage, the next claims plan the rest.
PLANNING_SECONDS = 1.0

Arguments: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]


class Claim(NamedTuple):
    """An execution that this cluster may start until the lease ends."""

    execution_id: int
    attempt: int
    task: str
    timeout: timedelta
    at_most_once: bool


def claim_runs(
    cluster_id: int,
    now: datetime,
    limit: int,
    *,
    exclude_tasks: Sequence[str] = (),
    only_tasks: Sequence[str] = (),
    interruptions: Sequence[Interruption] = (),
    unwritten_since: datetime | None = None,
    before_commit: Callable[[], object] | None = None,
) -> list[Claim]:
    """Claim up to `limit` due executions for this cluster, except `exclude_tasks`, or only of `only_tasks`.

    `interruptions` are the recent ones of this cluster; they explain slots that it could not claim in time. If its
    workers have outcomes to write, `unwritten_since` is the earliest finish time among them. `now` may be slightly in
    the future if `before_commit` waits for it.
    """
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)

    def claim(exclude_owners: Sequence[int] = ()) -> list[Claim]:
        with transaction.atomic():
            claims = []
            if sql.has_ready_runs(now):
                claims = [
                    Claim(row.pk, row.attempt, row.task, job.timeout, job.at_most_once)
                    for row, job in claim_queued(
                        cluster_id,
                        now,
                        lease_until,
                        limit,
                        exclude_tasks=exclude_tasks,
                        only_tasks=only_tasks,
                    )
                ]
            if room := limit - len(claims):
                jobs = sql.due_jobs(
                    now,
                    room,
                    exclude_tasks=exclude_tasks,
                    only_tasks=only_tasks,
                    exclude_owners=exclude_owners,
                )
                why_missed = ReasonMissed(cluster_id, now, interruptions)
                claims += _claim_due(jobs, cluster_id, now, lease_until, room, why_missed, unwritten_since)
            if before_commit:
                before_commit()
            return claims

    try:
        return claim()
    except DatabaseError as error:
        if not is_lock_timeout(error):
            raise
        # A new run refers to its owner's row, which another session may have locked: skip only that owner's jobs.
        return claim(_locked_owners(now))


def _locked_owners(now: datetime) -> list[int]:
    """Return the owners of due jobs whose rows other sessions have locked."""
    owners = set(Job.objects.due(now).order_by().values_list("owner_id", flat=True).distinct())
    people = get_user_model()._base_manager.filter(pk__in=owners).order_by()
    with transaction.atomic():
        free = set(people.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    return sorted(owners - free)


def wake_up_at(now: datetime, *, exclude_tasks: Sequence[str] = ()) -> datetime | None:
    """Return when the next job or queued run is due, except tasks in `exclude_tasks`."""
    if not exclude_tasks:
        return sql.earliest_moment()
    due = Job.objects.armed().exclude(task__in=exclude_tasks)
    ready = Execution.objects.filter(status=Status.QUEUED, available_at__isnull=False)
    moments = (
        due.order_by("next_run_at").values_list("next_run_at", flat=True).first(),
        ready.exclude(task__in=exclude_tasks)
        .order_by("available_at")
        .values_list("available_at", flat=True)
        .first(),
    )
    return min((at for at in moments if at), default=None)


def count_due(at: datetime, limit: int) -> int:
    """Return how many jobs will be due at a moment, but stop counting at `limit`."""
    return Job.objects.due(at).order_by()[:limit].count()


def _claim_due(
    jobs: Sequence[DueJob],
    cluster_id: int,
    now: datetime,
    lease_until: datetime,
    limit: int,
    why_missed: WhyMissed,
    unwritten_since: datetime | None,
) -> list[Claim]:
    """Write the ledger rows of due slots, and claim those that run now."""
    if not jobs:
        return []
    by_id = {job.pk: job for job in jobs}
    live = sql.live_runs(by_id)
    messages = [job for job in jobs if job.task == NOTIFICATION]
    heartbeats, holds = _arguments_of_heartbeats(jobs), holds_of(messages, now) if messages else {}
    planned = _plan_all(jobs, now, live, limit, why_missed, heartbeats, holds)
    if unwritten_since:
        planned = [item for item in planned if not _is_undecided(item, live, unwritten_since)]
    plans = {item.job.pk: item for item in planned}
    plain = {pk: by_id[pk] for pk, item in plans.items() if item.is_plain}
    claims = _insert_plain(plain, cluster_id, lease_until, now)
    for pk, spans in _recorded_spans([pk for pk in plans if pk not in claims]).items():
        plans[pk] = _plan_safely(
            by_id[pk], now, live[pk], why_missed, spans, heartbeats.get(pk), holds.get(pk)
        )
    others = [item for pk, item in plans.items() if pk not in claims]
    _advance([item for item in plans.values() if not item.broken], live)
    if broken := [item for item in plans.values() if item.broken]:
        for item in broken:
            pause_unreadable(Job.objects.get(pk=item.job.pk), now, item.broken)
        raise_unreadable([item.job.pk for item in broken], now)
    return [*claims.values(), *_insert_others(others, cluster_id, lease_until, now)]


def _arguments_of_heartbeats(jobs: Sequence[DueJob]) -> dict[int, Arguments]:
    """Return the arguments of the heartbeat jobs, which run elsewhere; without any, this costs no query."""
    keys = [job.pk for job in jobs if job.task == HEARTBEAT]
    if not keys:
        return {}
    rows = Job.objects.filter(pk__in=keys).values_list("pk", "args", "kwargs")
    return {pk: (args, kwargs) for pk, args, kwargs in rows}


def _plan_all(
    jobs: Sequence[DueJob],
    now: datetime,
    live: Counter[int],
    limit: int,
    why_missed: WhyMissed,
    heartbeats: Mapping[int, Arguments],
    holds: Mapping[int, Hold],
) -> list[Plan]:
    """Plan jobs until the limit is reached; the others stay due for the next claim."""
    plans: list[Plan] = []
    rows, deadline = 0, time.monotonic() + PLANNING_SECONDS
    for job in jobs:
        if rows >= limit or time.monotonic() > deadline:
            break
        arguments, hold = heartbeats.get(job.pk), holds.get(job.pk)
        plans.append(_plan_safely(job, now, live[job.pk], why_missed, (), arguments, hold))
        rows += len(plans[-1].slots)
    return plans


def _is_undecided(item: Plan, live: Counter[int], unwritten_since: datetime) -> bool:
    """Return whether a slot would be skipped because of a run that may have ended before it; then the slot stays due."""
    return live[item.job.pk] > 0 and any(
        slot.status == Status.SKIPPED and slot.at >= unwritten_since for slot in item.slots
    )


def _plan_safely(
    job: DueJob,
    now: datetime,
    live: int,
    why_missed: WhyMissed,
    recorded: Sequence[Span] = (),
    arguments: Arguments | None = None,
    hold: Hold | None = None,
) -> Plan:
    """Plan one job; if that fails, plan a failed row and a pause, so that other jobs are not affected.

    `arguments` are those of a heartbeat.
    """
    try:
        return plan(
            job,
            now,
            live=live,
            owner_is_active=job.owner_is_active,
            why_missed=why_missed,
            recorded=recorded,
            grace=None if arguments is None else grace_of(*arguments),
            hold=hold,
        )
    except Error:
        # A database error says nothing about the job.
        raise
    except Exception as error:
        logger.exception("Job %s cannot be planned", job.pk)
        reason = unreadable(error)[: limits.NAME_LENGTH]
        slot = Slot(job.next_run_at, Status.FAILED, reason=reason, error=reason)
        return Plan(job, unrecorded(job, slot, recorded), broken=reason)


def _recorded_spans(job_ids: Sequence[int]) -> dict[int, list[Span]]:
    """Find rows from each job's next slot on; after a clock was set back, those slots must not run again."""
    recorded: dict[int, list[Span]] = defaultdict(list)
    if job_ids:
        rows = (
            Execution.objects.filter(job_id__in=job_ids, scheduled_for__gte=F("job__next_run_at"))
            .exclude(cause__in=Execution.UNPLANNED)
            .order_by()
            .values_list("job_id", "scheduled_for", "last_slot")
        )
        for job_id, first, last in rows:
            recorded[job_id or 0].append((first, last))
    return recorded


def _insert_plain(
    jobs: dict[int, DueJob], cluster_id: int, lease_until: datetime, now: datetime
) -> dict[int, Claim]:
    """Insert the rows of plain slots in one statement, except for jobs whose slot already has a row."""
    if not jobs:
        return {}
    return {
        job_id: _claim_of(execution_id, jobs[job_id])
        for execution_id, job_id in sql.insert_claimed(cluster_id, now, lease_until, jobs)
    }


def _claim_of(execution_id: int, job: PlannedJob) -> Claim:
    return Claim(execution_id, 0, job.task, job.timeout, job.at_most_once)


def _insert_others(
    plans: Sequence[Plan], cluster_id: int, lease_until: datetime, now: datetime
) -> list[Claim]:
    rows = [slot.row_of(item.job, now) for item in plans for slot in item.slots]
    for row in rows:
        if row.status == Status.CLAIMED:
            row.cluster_id, row.claimed_at, row.lease_until = cluster_id, now, lease_until
    Execution.objects.bulk_create(rows)
    if missed := [row for row in rows if row.status == Status.MISSED]:
        raise_missed(
            [Missed(row.job_id or 0, row.slots, row.reason, row.scheduled_for) for row in missed], now
        )
    jobs = {item.job.pk: item.job for item in plans}
    return [_claim_of(row.pk, jobs[row.job_id or 0]) for row in rows if row.status == Status.CLAIMED]


def _advance(plans: Iterable[Plan], live: Counter[int]) -> None:
    """Move each job to its next slot, or end it."""
    rows = []
    for item in plans:
        running = len(item.to_run)
        status = item.status_after(is_busy=bool(running or live[item.job.pk]))
        rows.append((item.job.pk, item.next_run_at, status, running))
    update_rows(
        Job,
        "next_run_at = {next_run_at}, status = {status},"
        " slot_count = slot_count + {slot_count}, run_count = run_count + {slot_count}",
        ("id", "next_run_at", "status", "slot_count"),
        rows,
    )
