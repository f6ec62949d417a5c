"""Edit jobs: check a change, then store it unless somebody else changed the job meanwhile."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime
from operator import attrgetter
from typing import Any

from django.db import transaction

from schedules import clock, engine
from schedules.models import Execution, Job
from schedules.models.job_texts import searchable_text, skeleton
from schedules.result import Code, Err, Ok, Result, invalid_fields
from schedules.services.jobs.addresses import add_heartbeats
from schedules.services.jobs.calendars import attach_calendars, store_calendars
from schedules.services.jobs.chains import Planned, attach_upstream
from schedules.services.jobs.creation import (
    changes_of,
    likeness_of,
    planned_rate,
    set_anchor,
)
from schedules.services.jobs.masked_arguments import fill_in
from schedules.services.jobs.proposals import ask_to_confirm, proposal_columns
from schedules.services.jobs.states import account_until, account_until_each, is_protected, protected
from schedules.services.jobs.validation import (
    CALL,
    default_of,
    editable_only,
    job_problem,
    no_runs_left,
    resolve_channels,
    type_problems,
)
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor, forbidden, not_found, record, wrong_state
from schedules.services.quotas import reschedule_problem, wait_for_turn
from schedules.services.runs.actions import skip
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.unplanned import AFTER

MAX_EDIT_TRIES = 3
_RESCHEDULED = "The schedule was changed before this run."


def edit(
    actor: Actor,
    job_id: str,
    *,
    revision: int | None = None,
    seen: Job | None = None,
    skipped_days: Collection[date] = (),
    **changes: Any,
) -> Result[Job]:
    """Change a pending or paused job; of two callers with the same revision, the second is refused.

    `seen` is the job as the caller has just read it, to save reading it again. `skipped_days` are left out, besides what
    the job skips already.
    """
    if skipped_days:
        with transaction.atomic():
            edited = edit(actor, job_id, revision=revision, seen=seen, **changes)
            if isinstance(edited, Ok):
                edited = skip(actor, edited.value.public_id, skipped_days)
            if isinstance(edited, Err):
                transaction.set_rollback(True)
            return edited
    changes = editable_only(changes)
    job, revision = seen, seen.revision if seen else revision
    for _ in range(MAX_EDIT_TRIES):
        job = job or actor.jobs().find(job_id)
        if job is None:
            return not_found(job_id)
        if not actor.may_change(job):
            return forbidden(job)
        if answer := _try_to_edit(actor, job, revision, changes):
            return answer
        job = None
    return Err(Code.JOB_FIRES_TOO_OFTEN, job_id)


def _try_to_edit(
    actor: Actor, job: Job, revision: int | None, changes: Mapping[str, Any]
) -> Result[Job] | None:
    """Try to edit once; return None if the job fired meanwhile, so that the caller tries again."""
    now = clock.now()
    if revision is not None and revision != job.revision:
        return Err(Code.JOB_CHANGED, job.public_id)
    prepared = prepare_edit(actor, job, changes, now)
    if isinstance(prepared, Err):
        return prepared
    if (edited := prepared.value) is None:
        return Ok(job)
    with transaction.atomic():
        if edited.job.follows_id and edited.is_rescheduled:
            # Two simultaneous edits could make two jobs follow each other.
            wait_for_turn(profile_of(job.owner))
            if problem := attach_upstream(actor, edited.job):
                return problem
        if refusal := reschedule_problem(job, edited.added_runs):
            return refusal
        if edited.is_rescheduled and edited.job.follows_calendars:
            if problem := store_calendars(actor, edited.job, now):
                return problem
            edited.changes |= {"closed_by": edited.job.closed_by, "cron": edited.job.cron}
        if not store_edit(edited):
            return _conflict_with(actor, edited.old)
        if edited.needs_confirmation and (refusal := _withdraw([edited], now)):
            transaction.set_rollback(True)
            return refusal
        record(actor, "edit", now, job=edited.job, before=edited.before, after=edited.after)
        if edited.needs_confirmation:
            ask_to_confirm(actor, [edited.job], now)
    return Ok(edited.job)


@dataclass(slots=True)
class PreparedEdit:
    """A valid change of a job, not stored yet."""

    old: Job
    job: Job
    """The job as it will be after the edit."""
    now: datetime
    changes: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    is_rescheduled: bool
    needs_confirmation: bool
    """Whether a person must confirm it before the job continues."""

    @property
    def added_runs(self) -> float:
        """How many more runs per minute the new schedule plans."""
        return self.job.runs_per_minute - self.old.runs_per_minute


def prepare_edit(
    actor: Actor, old: Job, requested: Mapping[str, Any], now: datetime, planned: Planned | None = None
) -> Result[PreparedEdit | None]:
    """Check a change of a job, which may make it follow a `planned` one; return None if it changes nothing."""
    if problems := type_problems(requested):
        return invalid_fields(problems)
    if isinstance(filled := fill_in(old, requested), Err):
        return filled
    requested = resolve_channels(old.owner_id, filled.value, old)
    requested_columns = requested.keys()
    changes = {name: value for name, value in requested.items() if getattr(old, name) != value}
    if not changes:
        return Ok(None)
    if refusal := edit_refusal(old):
        return refusal
    job = copy(old)
    for name, value in changes.items():
        setattr(job, name, value)
    is_rescheduled = not changes.keys().isdisjoint(Job.TRIGGER_FIELDS)
    _reset_meaningless_columns(job, changes, requested_columns)
    has_upstream = job.cron.startswith(AFTER) or old.follows_id
    if has_upstream and {"cron", "trigger_type"} & changes.keys():
        problem = attach_upstream(actor, job, planned)
        if problem:
            return problem
    if "cron" in changes:
        # The new reference may mean the same upstream job.
        changes["cron"] = job.cron
        if job.cron == old.cron:
            del changes["cron"]
            is_rescheduled = not changes.keys().isdisjoint(Job.TRIGGER_FIELDS)
    if job.follows_id != old.follows_id:
        changes["follows_id"] = job.follows_id
    if not changes:
        return Ok(None)
    set_anchor(job, now)
    if job.anchor_at != old.anchor_at:
        changes["anchor_at"] = job.anchor_at
    if problem := job_problem(actor, job, now, changed=set(changes)):
        return problem
    follows = job.on_closed != Job.OnClosed.SKIP or job.follows_calendars or old.closed_by
    if is_rescheduled and follows:
        if problem := attach_calendars(job):
            return problem
        changes |= {"closed_by": job.closed_by} | ({"cron": job.cron} if job.cron != old.cron else {})
    before, after = changes_of(old, changes), changes_of(job, changes)
    if job.skips and job.trigger_type == Job.TriggerType.ONCE:
        # The skipped runs belonged to a schedule that no longer repeats.
        changes["skips"] = job.skips = ""
    if is_rescheduled:
        following = job.next_slot(now)
        if following is None:
            return no_runs_left(job, now)
        changes |= _rescheduled(old, following, now)
        changes["runs_per_minute"] = job.runs_per_minute = planned_rate(job)
    if "name" in changes:
        changes["name_skeleton"] = skeleton(job.name)
    changes |= {"likeness": likeness_of(job), "search_text": searchable_text(job)}
    needs_confirmation = (is_rescheduled or not CALL.isdisjoint(changes)) and actor.must_propose(job.task)
    if needs_confirmation:
        changes |= proposal_columns(actor, now)
    return Ok(PreparedEdit(old, job, now, changes, before, after, is_rescheduled, needs_confirmation))


def _reset_meaningless_columns(job: Job, changes: dict[str, Any], requested_columns: Collection[str]) -> None:
    """Reset columns that mean nothing to the new schedule, unless the caller set them."""
    is_once = job.trigger_type == Job.TriggerType.ONCE
    has_new_interval = not changes.keys().isdisjoint(("every", "trigger_type"))
    if has_new_interval and "anchor_at" not in requested_columns:
        job.anchor_at = None
    if job.calendar_unit and has_new_interval and "calendar_unit" not in requested_columns:
        # The interval was set by a form that only knows elapsed time.
        job.calendar_unit = changes["calendar_unit"] = ""
    for name in Job.REPEATING_FIELDS if is_once else ():
        if name not in requested_columns and getattr(job, name) != (unused := default_of(name)):
            changes[name] = unused
            setattr(job, name, unused)
    if not job.calendars and "on_closed" not in requested_columns and job.on_closed != Job.OnClosed.SKIP:
        changes["on_closed"] = job.on_closed = Job.OnClosed.SKIP


def edit_refusal(job: Job) -> Err | None:
    """Return why this job cannot be edited at all, or None."""
    if is_protected(job):
        return protected(job)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return wrong_state(job)
    return None


def store_edit(edited: PreparedEdit) -> bool:
    """Store a change; return False if the job has changed since it was read."""
    old, job, now = edited.old, edited.job, edited.now
    is_stored = Job.objects.filter(
        pk=old.pk, revision=old.revision, status=old.status, next_run_at=old.next_run_at, deleted_at=None
    ).update(**edited.changes, revision=old.revision + 1, updated_at=now)
    if not is_stored:
        return False
    if job.task == HEARTBEAT and not CALL.isdisjoint(edited.changes):
        add_heartbeats([job])
    if edited.is_rescheduled or edited.needs_confirmation:
        account_until(old, now, _RESCHEDULED)
    if edited.is_rescheduled and engine.delete_future_rows(old, now):
        job.refresh_from_db()
    else:
        job.apply_changes(edited.changes, now)
    return True


def store_edits(edits: Sequence[PreparedEdit], now: datetime) -> Err | None:
    """Store edits with few statements, if the caller has locked the jobs and checked that they are unchanged.

    On an error, the caller must roll back.
    """
    moved = [edited.old for edited in edits if edited.is_rescheduled]
    account_until_each(
        [each.old for each in edits if each.is_rescheduled or each.needs_confirmation], now, _RESCHEDULED
    )
    of_columns = defaultdict(list)
    for edited in edits:
        planned = edited.changes.get("next_run_at")
        if planned and planned <= now:
            # This slot passed between the check and now, before the new schedule applied: skip it.
            edited.changes["next_run_at"] = edited.job.next_slot(now) or planned
        edited.job.apply_changes(edited.changes, now)
        of_columns[frozenset(edited.changes)].append(edited.job)
    for columns, jobs in of_columns.items():
        names = ["id", *sorted(columns), "revision", "updated_at"]
        assignments = ", ".join(f"{name} = {{{name}}}" for name in names[1:])
        engine.update_rows(Job, assignments, names, map(attrgetter(*names), jobs))
        if not CALL.isdisjoint(columns):
            add_heartbeats([job for job in jobs if job.task == HEARTBEAT])
    for old in engine.jobs_with_future_rows(moved, now):
        engine.delete_future_rows(old, now)
    return _withdraw([edited for edited in edits if edited.needs_confirmation], now)


def _withdraw(edits: Sequence[PreparedEdit], now: datetime) -> Err | None:
    """Withdraw the queued runs of jobs that now wait for confirmation, so that none repeats with the changed job.

    The pause ends the retries of scheduled runs, but not of a run started by hand: return an error for one under way.
    """
    ids = [edited.old.pk for edited in edits]
    if not ids:
        return None
    touched = engine.withdraw_each(ids, now, "changed", also_manual=True)
    for edited in edits:
        if edited.old.pk in touched:
            edited.job.refresh_from_db()
    by_hand = Execution.objects.live().filter(job__in=ids, cause=Execution.Cause.MANUAL)
    job_id = by_hand.values_list("job__public_id", flat=True).first()
    return Err(Code.JOB_RUN_UNDER_WAY, job_id) if job_id else None


def _rescheduled(old: Job, following: datetime, now: datetime) -> dict[str, Any]:
    if old.status == Job.Status.PENDING:
        return {"next_run_at": following}
    if old.has_unreadable_schedule:
        # The pause continues, but no longer because of the unreadable schedule.
        return {"paused_at": now, "has_unreadable_schedule": False, "pause_reason": ""}
    return {"paused_at": now}


def _conflict_with(actor: Actor, seen: Job) -> Err | None:
    """Return which change came first, or None if it was only a claim, after which the edit can be tried again."""
    job = actor.jobs().find(seen.public_id)
    if job is None:
        return not_found(seen.public_id)
    if job.status not in (Job.Status.PENDING, Job.Status.PAUSED):
        return wrong_state(job)
    return Err(Code.JOB_CHANGED, job.public_id) if job.revision != seen.revision else None
