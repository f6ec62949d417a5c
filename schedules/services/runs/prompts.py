"""Prompts that wait for an agent: claim them with a lease, complete, dismiss or release them, and list them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from schedules import clock, engine, limits
from schedules.agents import choice
from schedules.agents.choice import stop_in_force
from schedules.agents.prompt_texts import says_nothing_to_do
from schedules.models import Execution, Job, Profile
from schedules.models.counting import SCANNED, count_up_to
from schedules.models.executions import HELD_UNTIL
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.paging import ListPage, read_page
from schedules.services.permissions import Actor, forbidden, record
from schedules.services.runs.agent_stops import release
from schedules.when.zones import local_words

Status = Execution.Status

MAX_PROMPTS = 20
MAX_UNCLAIMED = 1_000
# How long after asking for prompts an agent is expected to ask again, and how precisely the time is stored.
ASKED_WITHIN = timedelta(days=7)
ASKED_PRECISION = timedelta(hours=1)
MAX_LEASE = timedelta(hours=24)
_ENDED: dict[str, Code] = {Status.SUCCEEDED: Code.PROMPT_ANSWERED, Status.CANCELLED: Code.PROMPT_DISMISSED}
# The few columns of a prompt's job that are read.
_JOB_COLUMNS = ("id", "owner", "public_id", "name", "task", "args", "kwargs", "timezone", "deleted_at")
_OTHER_COLUMNS = [
    f"job__{field.name}" for field in Job._meta.concrete_fields if field.name not in _JOB_COLUMNS
]


def claim_prompts(
    actor: Actor, *, limit: int = 1, lease: timedelta = timedelta(minutes=15)
) -> Result[list[Execution]]:
    """Lease the oldest waiting prompts to this agent; once a lease expires, others can claim them."""
    if not 1 <= limit <= MAX_PROMPTS:
        return Err(Code.PROMPT_COUNT_OUT_OF_RANGE, limit=MAX_PROMPTS)
    if not timedelta(minutes=1) <= lease <= MAX_LEASE:
        return invalid("lease_minutes", "Choose between 1 minute and 24 hours.")
    if stop := stop_in_force(actor.user.pk):
        return Err(Code.AGENTS_STOPPED, reason=stop.sentence)
    now = clock.now()
    with transaction.atomic():
        rows = list(
            Execution.objects.filter(actor.within_tasks(), owner=actor.user.pk)
            .claimable(now)
            .select_for_update(skip_locked=True, of=("self",))
            .select_related("job")
            .defer(*_OTHER_COLUMNS)
            .order_by("scheduled_for")[:limit]
        )
        for row in rows:
            if row.was_held:
                row.attempt += 1
                row.lease_key = actor.key
            row.lease_until, row.leased_to = now + lease, actor.label
            # One by one: there is usually just one.
            Execution.objects.filter(pk=row.pk).update(
                attempt=row.attempt,
                lease_until=row.lease_until,
                leased_to=row.leased_to,
                lease_key=row.lease_key,
            )
    # A stop in the meantime may have missed these leases.
    if rows and (stop := stop_in_force(actor.user.pk)):
        release(Execution.objects.waiting().filter(pk__in=[row.pk for row in rows], lease_until=now + lease))
        return Err(Code.AGENTS_STOPPED, reason=stop.sentence)
    _remember_asking(actor.read_profile(), now)
    return Ok(rows)


def has_agent_asked(profile: Profile, now: datetime) -> bool:
    """Return whether an agent asked for prompts recently, so that it will probably take the next one."""
    return profile.prompts_asked_at is not None and profile.prompts_asked_at > now - ASKED_WITHIN


def will_wait_unclaimed(actor: Actor, job: Job, now: datetime) -> bool:
    """Return whether a prompt goes to the inbox, not to a runner, although no agent has asked for prompts recently."""
    if has_agent_asked(actor.read_profile(), now):
        return False
    runner_name = job.argument("runner")
    if runner_name is None and choice.is_always_inbox():
        return True
    chosen = choice.choose(actor.user, runner_name if isinstance(runner_name, str) else None)
    return chosen.runner is None and not chosen.problem


def _remember_asking(profile: Profile, now: datetime) -> None:
    if profile.prompts_asked_at is None or abs(now - profile.prompts_asked_at) > ASKED_PRECISION:
        profile.prompts_asked_at = now
        Profile.objects.filter(pk=profile.pk).update(prompts_asked_at=now)


def unclaimed_jobs(actor: Actor, now: datetime) -> list[int]:
    """Return the jobs whose last run is a due prompt that no agent holds, the longest due first.

    For agents they are pending: nobody works on them, and they can still be cancelled.
    """
    waiting = Execution.objects.filter(actor.within_tasks(), owner=actor.user.pk).unheld(now)
    return _last_runs(waiting.order_by("scheduled_for"))


def jobs_yet_to_start(actor: Actor, now: datetime) -> list[int]:
    """Return the jobs whose last run is a due prompt that no agent holds, or waits for the end of quiet hours."""
    held = Execution.objects.filter(
        actor.within_tasks(),
        owner=actor.user.pk,
        status=Execution.Status.QUEUED,
        available_at__gt=now,
        attempt=0,
        reason__startswith=HELD_UNTIL,
    )
    return [*unclaimed_jobs(actor, now), *_last_runs(held.order_by("available_at"))]


def _last_runs(runs: Any) -> list[int]:
    ended = runs.filter(job__status=Job.Status.RUNNING, job__deleted_at=None)
    return list(ended.values_list("job", flat=True)[:MAX_UNCLAIMED])


def read_waiting(actor: Actor, position: Mapping[str, str], size: int) -> ListPage:
    """Read the page at a position of the prompts that wait for an answer, oldest first."""
    waiting = actor.executions().waiting().filter(job__deleted_at=None).select_related("job__owner")
    return read_page(waiting, position, size, order=("scheduled_for", "pk"))


def count_waiting(actor: Actor, limit: int) -> int:
    """Count the prompts that wait for an answer, up to one more than the limit."""
    return count_up_to(actor.executions().waiting().order_by("scheduled_for"), limit)


def recently_ended(actor: Actor, limit: int) -> list[Execution]:
    """Return the last ended prompts among the newest runs only: a long history may have none."""
    newest = actor.executions().order_by("-scheduled_for", "-pk")
    rows = newest.values_list("pk", "task", "status")[:SCANNED]
    ended = [pk for pk, task, status in rows if task == "prompt" and status in Execution.FINAL]
    return list(newest.select_related("job").filter(pk__in=ended[:limit]))


def complete_prompt(
    actor: Actor, execution_id: int, *, result: Any = None, error: str | None = None
) -> Result[Execution]:
    """Record the answer to a prompt; an agent must hold its lease, a person needs none."""
    now = clock.now()
    if problem := limits.json_problem(result, max_bytes=settings.CRONTY_MAX_JSON_BYTES):
        return invalid("result", problem)
    if error is not None and len(error) > settings.CRONTY_MAX_JSON_BYTES:
        return Err(Code.PROMPT_ERROR_TOO_LONG)
    with transaction.atomic():
        row = _locked(actor, execution_id, now)
        if isinstance(row, Err):
            return row
        if actor.is_agent and not _holds(actor, row, now):
            return _not_held(actor, row, now)
        status = Status.FAILED if error else Status.SUCCEEDED
        _finish(
            row,
            status,
            now,
            result=result,
            error=limits.strip_unprintable(error or ""),
            reason=f"Completed by {actor.label}.",
        )
        record(actor, "complete", now, job=_job_of(row), after={"execution": row.pk, "status": status})
    return Ok(row)


def dismiss_prompt(actor: Actor, execution_id: int) -> Result[Execution]:
    """Remove a waiting prompt from the inbox without an answer."""
    now = clock.now()
    with transaction.atomic():
        row = _locked(actor, execution_id, now)
        if isinstance(row, Err):
            return row
        _finish(row, Status.CANCELLED, now, reason=f"Dismissed by {actor.label}.")
        record(actor, "dismiss", now, job=_job_of(row), after={"execution": row.pk})
    return Ok(row)


def release_prompt(actor: Actor, execution_id: int) -> Result[Execution]:
    """End an agent's lease on a prompt, so that another agent can claim it."""
    now = clock.now()
    with transaction.atomic():
        row = _locked(actor, execution_id, now)
        if isinstance(row, Err):
            return row
        if not row.leased_to:
            return Err(Code.PROMPT_NOT_LEASED, execution_id)
        held_by = row.leased_to
        release(Execution.objects.filter(pk=row.pk))
        record(actor, "release", now, job=_job_of(row), before={"execution": row.pk, "held_by": held_by})
    row.refresh_from_db()
    return Ok(row)


def _holds(actor: Actor, row: Execution, now: datetime) -> bool:
    """Return whether this agent holds the lease.

    The first holder needs only the same name, because a client may restart its server between claim and completion.
    Later holders also need the same key: another agent of that name may be the one whose lease expired.
    """
    return row.is_held_at(now) and row.leased_to == actor.label and row.lease_key in ("", actor.key)


def _not_held(actor: Actor, row: Execution, now: datetime) -> Err:
    if row.lease_until and row.is_held_at(now):
        until = local_words(row.lease_until, _job_of(row).timezone)
        return Err(Code.PROMPT_HELD_BY_ANOTHER, row.pk, until=until)
    return Err(Code.PROMPT_NOT_HELD if row.leased_to != actor.label else Code.PROMPT_LEASE_OVER, row.pk)


def _locked(actor: Actor, execution_id: int, now: datetime) -> Execution | Err:
    """Lock a waiting prompt and its job for the rest of the transaction."""
    matches = actor.executions().filter(pk=execution_id, job__isnull=False)
    with_job = matches.select_related("job").defer(*_OTHER_COLUMNS)
    if connection.features.has_select_for_update:
        # Lock the job before its execution, as every other service does, to avoid a deadlock.
        Job.objects.filter(pk__in=matches.values("job")).select_for_update().exists()
    # Do not lock a running execution: its worker locks the execution before the job.
    row = with_job.waiting().select_for_update(of=("self",)).first() or with_job.first()
    is_held = row is not None and row.status == Status.WAITING and row.is_held_at(now)
    # Once its job is deleted, a prompt is accessible only while an agent holds it.
    if row is None or (_job_of(row).deleted_at and not is_held):
        return Err(Code.PROMPT_NOT_FOUND, execution_id)
    if not actor.may_change(_job_of(row)):
        return forbidden(_job_of(row))
    if row.status != Status.WAITING:
        return Err(_ENDED.get(row.status, Code.PROMPT_NOT_WAITING), execution_id, state=row.status)
    return row


def _finish(row: Execution, status: Execution.Status, now: datetime, **values: Any) -> None:
    """End a locked run in the database and in memory."""
    values |= {"status": status, "finished_at": now, "lease_until": None}
    Execution.objects.filter(pk=row.pk, status=Status.WAITING).update(**values)
    for name, value in values.items():
        setattr(row, name, value)
    error = values.get("error", "")
    outcome = engine.Outcome(row.pk, row.attempt, _job_of(row).pk, status, now, error=error)
    channel = _job_of(row).argument("deliver_to")
    if isinstance(channel, str) and not says_nothing_to_do(row.result):
        outcome = outcome._replace(deliver_to=channel)
    engine.conclude([outcome])


def _job_of(row: Execution) -> Job:
    """Return the job of a row from `_locked`, which always has one."""
    assert row.job is not None
    return row.job
