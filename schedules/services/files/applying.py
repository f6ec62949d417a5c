"""Apply a plan in one transaction, edit a job from a document, and export jobs to a file."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

from django.db import transaction

from schedules import clock, engine
from schedules.models import Job
from schedules.models.triggers import TRIGGER_COLUMNS
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.files.jobs import DescribedJob
from schedules.services.files.plans import CHUNK, Action, Plan, Progress, Step, described_changes
from schedules.services.files.sources import COLUMNS, digest_of_job
from schedules.services.files.writing import end_text, schedule_value, write_jobs
from schedules.services.jobs.bulk import change_jobs
from schedules.services.jobs.calendars import add_missing_holidays
from schedules.services.jobs.chains import link_planned
from schedules.services.jobs.creation import insert_jobs, policy_defaults
from schedules.services.jobs.edits import edit, store_edits
from schedules.services.jobs.masked_arguments import named_arguments, shown_arguments
from schedules.services.jobs.proposals import ask_to_confirm
from schedules.services.jobs.states import CAME_DUE, pause, restore, resume
from schedules.services.jobs.validation import default_of
from schedules.services.people.holidays import calendar_titles
from schedules.services.permissions import Actor, event_of, record_all
from schedules.services.quotas import room_problem, wait_for_turn
from schedules.tasks import registry
from schedules.when import durations
from schedules.when.grammar import PhraseError
from schedules.when.triggers import Trigger, TriggerError, unreadable
from schedules.when.unplanned import After

T = TypeVar("T")
# If a column of _PLANNED has changed, the plan is outdated; a run changes only those of _STATE.
_PLANNED = ("revision", "source", "source_key")
_STATE = ("status", "next_run_at", "deleted_at")
_PLANNED_OF, _STATE_OF = attrgetter(*_PLANNED), attrgetter(*_STATE)


class _RefusedError(Exception):
    """Rolls back the transaction, and carries the refusal."""

    def __init__(self, error: Err) -> None:
        super().__init__(error.code)
        self.error = error


def apply_plan(actor: Actor, plan: Plan, *, on_progress: Progress = lambda done: None) -> Result[Plan]:
    """Apply all steps of a plan, or none; a job that changed since the plan was made is a conflict."""
    new = [step for step in plan.steps if step.action == Action.CREATE]
    others = [step for step in plan.steps if step.action != Action.CREATE]
    now = clock.now()
    try:
        with transaction.atomic():
            unchanged = _check(actor, plan, new)
            _create(actor, plan.source, new, now, on_progress)
            for done, steps in enumerate(_chunks(others)):
                _change(actor, plan.source, steps, unchanged, now)
                on_progress(len(new) + done * CHUNK + len(steps))
            link_planned(
                {step.job.public_id: step.edit.job if step.edit else step.job for step in plan.steps}
            )
    except _RefusedError as refused:
        return refused.error
    return Ok(plan)


def edit_as_described(actor: Actor, job: Job, spec: DescribedJob) -> Result[Job]:
    """Change one job to match its edited document; a job that changed since the export is a conflict."""
    try:
        spec = spec.with_calendars(calendar_titles(job.owner_id) if spec.named_calendars else {})
    except PhraseError as error:
        return invalid("schedule", str(error))
    changes = described_changes(job, spec)
    if isinstance(changes, Err):
        return changes
    days = spec.days_to_skip(job, clock.now())
    try:
        with transaction.atomic():
            edited = _expect(edit(actor, job.public_id, revision=job.revision, skipped_days=days, **changes))
            if spec.paused is not None and spec.paused != (edited.status == Job.Status.PAUSED):
                change = pause if spec.paused else resume
                edited = _expect(change(actor, job.public_id))
    except _RefusedError as refused:
        return refused.error
    return Ok(edited)


def _check(actor: Actor, plan: Plan, new: Sequence[Step]) -> set[int]:
    """Lock the jobs of a plan, or refuse it; return those whose state is also unchanged since it was made."""
    profile = actor.read_profile()
    wait_for_turn(profile)
    added = sum(step.job.runs_per_minute for step in new)
    added += sum(step.edit.added_runs for step in plan.steps if step.edit)
    if (new or added > 0) and (refusal := room_problem(profile, len(new), added)):
        raise _RefusedError(refusal)
    touched = [job for step in plan.steps for job in (step.replaced, step.job) if job and job.pk]
    as_planned = {job.pk: job for job in touched}
    unchanged: set[int] = set()
    # Locked in key order, like everywhere else, so that nothing deadlocks.
    for keys in _chunks(sorted(as_planned)):
        locked = Job.objects.filter(pk__in=keys).select_for_update().order_by("pk")
        current = {job.pk: job for job in locked.only(*_PLANNED, *_STATE)}
        for key in keys:
            if key not in current or _PLANNED_OF(current[key]) != _PLANNED_OF(as_planned[key]):
                raise _RefusedError(Err(Code.PLAN_OUTDATED))
            if _STATE_OF(current[key]) == _STATE_OF(as_planned[key]):
                unchanged.add(key)
    existing = dict(
        Job.objects.owned_by(actor.user.pk).filter(source=plan.source).values_list("source_key", "pk")
    )
    for step in plan.steps:
        planned = (step.replaced or step.job).pk
        if step.key in existing and existing[step.key] != planned:
            raise _RefusedError(Err(Code.FILE_ALREADY_APPLIED))
    return unchanged


def _create(actor: Actor, source: str, new: Sequence[Step], now: datetime, on_progress: Progress) -> None:
    replaced = [step.replaced.pk for step in new if step.replaced]
    for keys in _chunks(replaced):
        Job.objects.filter(pk__in=keys).update(source="", source_key="", source_digest="")
    for step in new:
        step.job.source, step.job.source_key = source, step.key
        step.job.source_digest = digest_of_job(step.job)
        if step.job.next_run_at and step.job.next_run_at <= now:
            # The plan is a while old, and its slots before now are not to be caught up on.
            step.job.next_run_at = step.job.next_slot(now) or step.job.next_run_at
    if refusal := add_missing_holidays(actor, [step.job for step in new], now):
        raise _RefusedError(refusal)
    insert_jobs(actor, [(step.job, step.columns) for step in new], now, on_progress=on_progress)


def _change(
    actor: Actor, source: str, steps: Sequence[Step], unchanged: Collection[int], now: datetime
) -> None:
    """Change existing jobs; those that are still as planned need only few statements."""
    deleted, edits, origins = [], [], []
    for step in steps:
        if step.action == Action.DELETE:
            deleted.append(step.job.pk)
        elif _needs_services(step) or (step.edit and step.job.pk not in unchanged):
            _change_one(actor, source, step)
        elif step.edit:
            step.edit.changes |= _origin(source, step.key, step.edit.job)
            edits.append(step.edit)
        else:
            origins.append({"id": step.job.pk} | _origin(source, step.key, step.job))
    if deleted:
        _expect(change_jobs(actor, "delete", deleted))
    if refusal := add_missing_holidays(actor, [each.job for each in edits], now):
        raise _RefusedError(refusal)
    for each in edits:
        if "closed_by" in each.changes:
            each.changes["closed_by"] = each.job.closed_by
    if refusal := store_edits(edits, now):
        raise _RefusedError(refusal)
    changed = (
        event_of(actor, "edit", now, job=edited.job, before=edited.before, after=edited.after)
        for edited in edits
    )
    record_all(changed, now)
    ask_to_confirm(actor, [edited.job for edited in edits if edited.needs_confirmation], now)
    if origins:
        names = list(origins[0])
        assignments = ", ".join(f"{name} = {{{name}}}" for name in names[1:])
        engine.update_rows(Job, assignments, names, [list(row.values()) for row in origins])


def _needs_services(step: Step) -> bool:
    """Return whether only the services for single jobs can make a change."""
    return step.is_restored or step.paused is not None or bool(step.skipped_days)


def _change_one(actor: Actor, source: str, step: Step) -> None:
    """Change a job by the services for single jobs, which read its current state."""
    public_id = step.job.public_id
    job = _expect(restore(actor, public_id)) if step.is_restored else step.job
    came_due = step.is_restored and job.status == Job.Status.PAUSED and job.pause_reason.startswith(CAME_DUE)
    if step.columns or step.skipped_days:
        job = _expect(edit(actor, public_id, skipped_days=step.skipped_days, **step.columns))
        if came_due and step.paused is None and isinstance(resumed := resume(actor, public_id), Ok):
            # Its new time is still ahead.
            job = resumed.value
    if step.paused is not None and step.paused != (job.status == Job.Status.PAUSED):
        job = _expect(pause(actor, public_id, reason=source) if step.paused else resume(actor, public_id))
    Job.objects.filter(pk=job.pk).update(**_origin(source, step.key, job))


def _origin(source: str, key: str, job: Job) -> dict[str, str]:
    return {"source": source, "source_key": key, "source_digest": digest_of_job(job)}


def _expect(result: Result[T]) -> T:
    if isinstance(result, Err):
        raise _RefusedError(result)
    return result.value


def _chunks(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def export_jobs(actor: Actor, jobs: Iterable[Job]) -> str:
    """Write jobs as a file for which `make_plan` finds no changes; secrets are masked."""
    readable, left_out = [], []
    for job in sorted(jobs, key=lambda job: (job.source_key or job.name, job.pk)):
        if problem := _unreadable(job):
            left_out.append(f"# {job.name} is left out. {problem}.\n")
        else:
            readable.append(job)
    zones = Counter(job.timezone for job in readable)
    zone = min(zones, key=lambda name: (-zones[name], name)) if zones else actor.read_profile().zone
    by_key: dict[str, Job] = {}
    for job in readable:
        key = job.source_key or job.name
        number = 2
        while key in by_key:
            key, number = f"{job.source_key or job.name} ({number})", number + 1
        by_key[key] = job
    keys = {job.public_id: key for key, job in by_key.items()}
    exported = {key: _exported(job, key, zone, keys) for key, job in by_key.items()}
    return write_jobs(exported, zone) + "".join(left_out)


def _unreadable(job: Job) -> str:
    """Return why the schedule of a job cannot be read, or an empty text."""
    try:
        schedule_value(job.undelayed_trigger, job.timezone)
    except TriggerError as error:
        return unreadable(error.reason)
    return ""


def exportable(actor: Actor, source: str | None = None) -> list[Job]:
    """Return the active jobs of a person, or of one source, without Cronty's own jobs."""
    jobs = actor.visible(Job.objects.owned_by(actor.user.pk)).active().without_notices()
    if source is not None:
        jobs = jobs.filter(source=source)
    system = [task.name for task in registry.all_tasks(include_system=True) if task.system]
    return list(jobs.exclude(task__in=system).order_by("pk"))


def _with_key(trigger: Trigger, keys: Mapping[str, str]) -> Trigger:
    """Return a schedule that refers to the other job by its key in the file, if it is exported, too."""
    key = keys.get(trigger.job, "") if isinstance(trigger, After) else ""
    return replace(trigger, job=key) if isinstance(trigger, After) and key and '"' not in key else trigger


def _exported(job: Job, key: str, zone: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a job that differ from their defaults."""
    fields: dict[str, Any] = {} if job.name == key else {"name": job.name}
    fields["schedule"] = schedule_value(_with_key(job.undelayed_trigger, keys), job.timezone)
    if job.timezone != zone:
        fields["timezone"] = job.timezone
    fields["task"] = job.task
    args, kwargs = shown_arguments(job)
    named = named_arguments(job.task, args, kwargs)
    # Arguments without a name are given by position.
    if any(name not in kwargs and "." in name for name in named):
        fields["args"] = args
        named = kwargs
    if named:
        fields["arguments"] = named
    policies = policy_defaults(job.task)
    for name in COLUMNS:
        if name in ("name", "task", "timezone", *TRIGGER_COLUMNS):
            continue
        value = getattr(job, name)
        if value != policies.get(name, default_of(name)):
            fields[name] = _field(name, value, job.timezone)
    if job.status == Job.Status.PAUSED and job.paused_until is None:
        fields["paused"] = True
    return fields


def _field(name: str, value: Any, zone: str) -> Any:
    if isinstance(value, timedelta):
        return durations.typed(value)
    return end_text(value, zone) if name == "ends_at" else value
