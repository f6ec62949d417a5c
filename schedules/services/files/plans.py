"""Make plans: the changes, field by field, that make jobs match files. Nothing is written here."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

from schedules.models import Job, Profile
from schedules.models.job_texts import skeleton
from schedules.models.triggers import TRIGGER_COLUMNS, columns_of
from schedules.result import Err, Ok
from schedules.secrets import masking
from schedules.services.files.documents import Problem
from schedules.services.files.jobs import DescribedJob
from schedules.services.files.sources import COLUMNS, is_gone
from schedules.services.files.writing import end_text
from schedules.services.jobs.creation import build_job, policy_defaults
from schedules.services.jobs.edits import PreparedEdit, prepare_edit
from schedules.services.jobs.forecasts import next_runs_of, quiet_warnings, words_of
from schedules.services.jobs.masked_arguments import fill_in, named_arguments
from schedules.services.jobs.references import resolve_job
from schedules.services.jobs.validation import days_problem, default_of, resolve_channels
from schedules.services.people.holidays import calendar_titles
from schedules.services.permissions import Actor
from schedules.when import durations
from schedules.when.grammar import PhraseError
from schedules.when.triggers import CalendarInterval, Interval, Once
from schedules.when.unplanned import After
from schedules.when.zones import local_words

# How many jobs are looked up in one query.
CHUNK = 500
ENDED = (Job.Status.COMPLETED, Job.Status.FAILED)
# A file always sets these columns, directly or by its schedule and zone.
_NEEDED = {*TRIGGER_COLUMNS, "name", "task", "timezone"}
Progress = Callable[[int], None]


class Action(StrEnum):
    """What a step does with a job."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Difference:
    """A changed field of a job, as text; secrets are masked."""

    field: str
    before: str
    after: str


@dataclass(slots=True)
class Step:
    """The change of one job."""

    action: Action
    key: str
    job: Job
    """The new job, or the job as it is."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The changed columns of an existing job, or the columns that the file sets for a new one."""
    edit: PreparedEdit | None = None
    """The validated change; it is validated again only if the job has changed since."""
    differences: list[Difference] = field(default_factory=list)
    is_adopted: bool = False
    """Whether the file takes over a job that belongs to another file or to none."""
    is_restored: bool = False
    paused: bool | None = None
    """Whether the job has to be paused (True) or resumed (False)."""
    replaced: Job | None = None
    """The ended job that a new one replaces."""
    skipped_days: Sequence[date] = ()
    """The days that an existing job does not skip yet."""
    warnings: Sequence[str] = ()
    """When its messages are sent that are due in quiet hours."""


@dataclass(slots=True)
class Plan:
    """All steps that make the jobs of a source match its files."""

    source: str
    steps: list[Step] = field(default_factory=list)
    unchanged: int = 0
    left_out: list[str] = field(default_factory=list)
    """Jobs that would never run, with the reason."""
    unlisted: list[Job] = field(default_factory=list)
    """Jobs of the source that its files no longer describe, but that are kept."""
    problems: list[Problem] = field(default_factory=list)

    def count(self, action: Action) -> int:
        return sum(step.action == action for step in self.steps)


def make_plan(
    actor: Actor,
    source: str,
    specs: Sequence[DescribedJob],
    now: datetime,
    *,
    prune: bool = False,
    on_progress: Progress = lambda done: None,
) -> Plan:
    """Compare the jobs of a file with those that exist; a plan with problems must not be applied."""
    plan = Plan(source)
    visible = actor.visible(Job.objects.owned_by(actor.user.pk)).filter(source=source)
    existing_by_key = {job.source_key: job for job in visible}
    candidates = _jobs_named_in(actor, source, [spec for spec in specs if spec.key not in existing_by_key])
    planned: dict[str, Job] = {}
    profile = actor.read_profile()
    titles = calendar_titles(actor.user.pk) if any(spec.named_calendars for spec in specs) else {}
    for number, raw_spec in enumerate(_in_order(specs), 1):
        try:
            placed = _with_default_place(profile, _with_resolved_upstream(actor, raw_spec, planned))
            spec = placed.with_calendars(titles)
        except PhraseError as error:
            plan.problems.append(Problem(raw_spec.place_of("schedule"), f"{raw_spec.key}: {error}"))
            continue
        existing = existing_by_key.get(spec.key)
        adopted = None if existing else _adopt(candidates, spec)
        job = _plan_job(plan, actor, spec, existing or adopted, now, planned, is_adopted=adopted is not None)
        if job:
            planned |= {spec.columns["name"]: job, spec.key: job, job.public_id: job}
        on_progress(number)
    described = {spec.key for spec in specs}
    gone = [job for key, job in existing_by_key.items() if key not in described and job.deleted_at is None]
    if prune:
        plan.steps += [Step(Action.DELETE, job.source_key, job) for job in gone]
    else:
        plan.unlisted = gone
    for step in plan.steps:
        if step.action != Action.DELETE:
            job = step.edit.job if step.edit else step.job
            step.warnings = quiet_warnings(job, next_runs_of(job, now), profile)
    return plan


def notes_of_step(step: Step) -> list[str]:
    """Say what a step does besides its changes."""
    notes = []
    if step.action == Action.CREATE:
        notes.append(f"{step.job.task}, {step.job.trigger.words()}, {step.job.timezone}")
    if step.is_adopted:
        notes.append(f"takes over #{step.job.pk}{f' of {step.job.source}' if step.job.source else ''}")
    if step.is_restored:
        notes.append("brings it back")
    if step.paused is not None:
        notes.append("pauses it" if step.paused else "resumes it")
    if step.replaced:
        notes.append(f"replaces #{step.replaced.pk}, which has ended")
    return notes


def _in_order(specs: Sequence[DescribedJob]) -> list[DescribedJob]:
    """Return the jobs of a file, sorted so that each comes after the job that it follows."""
    waiting = [spec for spec in specs if isinstance(spec.trigger, After)]
    ordered = [spec for spec in specs if not isinstance(spec.trigger, After)]
    while waiting:
        names = {name for spec in waiting for name in (spec.key, spec.columns["name"])}
        free = [spec for spec in waiting if isinstance(spec.trigger, After) and spec.trigger.job not in names]
        # In a circle, none is free: planning refuses these jobs.
        ordered += free or waiting
        waiting = [spec for spec in waiting if spec not in free] if free else []
    return ordered


def _with_resolved_upstream(actor: Actor, spec: DescribedJob, planned: Mapping[str, Job]) -> DescribedJob:
    """Return a job of a file with the public id of the job that it follows, which is what is stored."""
    if not isinstance(spec.trigger, After):
        return spec
    job = planned.get(spec.trigger.job)
    if job is None and isinstance(match := resolve_job(actor.jobs(), spec.trigger.job), Ok):
        job = match.value
    return replace(spec, trigger=replace(spec.trigger, job=job.public_id)) if job else spec


def _with_default_place(profile: Profile, spec: DescribedJob) -> DescribedJob:
    """Return a job of a file with the place of its notifications, which the file may leave out."""
    columns = spec.columns
    kwargs = profile.with_default_place(columns["task"], columns.get("args", ()), columns["kwargs"])
    return spec if kwargs == columns["kwargs"] else replace(spec, columns=columns | {"kwargs": kwargs})


def _plan_job(
    plan: Plan,
    actor: Actor,
    spec: DescribedJob,
    job: Job | None,
    now: datetime,
    planned: Mapping[str, Job],
    *,
    is_adopted: bool,
) -> Job | None:
    """Plan the change of a job; return the job as it will be, or None if it is refused."""
    if job is None:
        return _plan_new_job(plan, actor, spec, now, planned)
    changes = _changes(job, spec)
    if isinstance(changes, Err):
        _add_problems(plan, spec, changes)
        return None
    if job.status in ENDED:
        # Only a new schedule restarts it, as a new job.
        if not changes.keys().isdisjoint(TRIGGER_COLUMNS):
            return _plan_new_job(plan, actor, spec, now, planned, replaced=job)
        if job.deleted_at is None:
            plan.unchanged += 1
            return job
        changes = {}
    # A cancelled job may be restored as paused.
    has_requested_state = (
        spec.paused == (job.status == Job.Status.PAUSED) and job.status != Job.Status.CANCELLED
    )
    paused = None if has_requested_state or job.status in ENDED else spec.paused
    requested = _with_whole_schedule(changes, spec)
    skipped_days = [] if job.status in ENDED else spec.days_to_skip(job, now)
    step = Step(
        Action.CHANGE,
        spec.key,
        job,
        requested,
        is_adopted=is_adopted,
        is_restored=is_gone(job),
        paused=paused,
        skipped_days=skipped_days,
    )
    if changes and not step.is_restored:
        prepared = prepare_edit(actor, job, requested, now, planned)
        if isinstance(prepared, Err):
            _add_problems(plan, spec, prepared)
            return None
        step.edit = prepared.value
    if changes:
        step.differences = _differences(job, changes)
    if skipped_days:
        step.differences.append(Difference("skips", "", ", ".join(map(str, skipped_days))))
    if changes or skipped_days or is_adopted or step.is_restored or paused is not None:
        plan.steps.append(step)
    else:
        plan.unchanged += 1
    return step.edit.job if step.edit else job


def described_changes(job: Job, spec: DescribedJob) -> dict[str, Any] | Err:
    """Return the columns to change so that a job is as a file describes it."""
    changes = _changes(job, spec)
    return changes if isinstance(changes, Err) else _with_whole_schedule(changes, spec)


def _with_whole_schedule(changes: Mapping[str, Any], spec: DescribedJob) -> dict[str, Any]:
    """Add all columns of a changed schedule, so that none is derived from the changed ones."""
    is_rescheduled = not changes.keys().isdisjoint(TRIGGER_COLUMNS)
    schedule = {
        name: value
        for name, value in _columns_set_by(spec).items()
        if is_rescheduled and name in TRIGGER_COLUMNS
    }
    return {**changes, **schedule}


def _plan_new_job(
    plan: Plan,
    actor: Actor,
    spec: DescribedJob,
    now: datetime,
    planned: Mapping[str, Job],
    replaced: Job | None = None,
) -> Job | None:
    if isinstance(spec.trigger, Once) and spec.trigger.run_at <= now:
        plan.left_out.append(f"{spec.key}: its time has passed")
        plan.unchanged += replaced is not None
        return replaced
    columns = _columns_set_by(spec)
    if isinstance(spec.trigger, Interval):
        # A phrase begins at the next round time, and the file leaves it there later.
        columns["anchor_at"] = spec.trigger.start
    built = build_job(actor, now, columns, paused=bool(spec.paused), planned=planned)
    if isinstance(built, Err):
        _add_problems(plan, spec, built)
        return None
    skipped_days = spec.days_to_skip(built.value, now)
    if problem := days_problem(skipped_days, built.value.timezone, now):
        _add_problems(plan, spec, problem)
        return None
    built.value.skips = " ".join(map(str, skipped_days))
    plan.steps.append(Step(Action.CREATE, spec.key, built.value, columns, replaced=replaced))
    return built.value


def _columns_set_by(spec: DescribedJob) -> dict[str, Any]:
    """Return the columns that the file sets."""
    columns = spec.columns | columns_of(spec.trigger)
    if isinstance(spec.trigger, Interval | CalendarInterval) and spec.has_start:
        columns["anchor_at"] = spec.trigger.start
    return columns


@cache
def _defaults(task_name: str) -> dict[str, Any]:
    """Return the columns of a job of this task that a file may leave out."""
    columns = {name: default_of(name) for name in COLUMNS if name not in _NEEDED}
    return columns | {"args": [], "kwargs": {}} | policy_defaults(task_name)


def _changes(job: Job, spec: DescribedJob) -> dict[str, Any] | Err:
    """Return the columns in which a job differs from the file; arguments by name and by position are the same."""
    target = _defaults(spec.columns["task"]) | _columns_set_by(spec)
    filled = fill_in(job, {name: target[name] for name in ("task", "args", "kwargs")})
    if isinstance(filled, Err):
        return filled
    target = resolve_channels(job.owner_id, target | filled.value)
    changes = {name: value for name, value in target.items() if getattr(job, name) != value}
    is_only_start = changes.keys() & set(TRIGGER_COLUMNS) == {"anchor_at"} and not spec.has_start
    if is_only_start and isinstance(spec.trigger, CalendarInterval) and _keeps_time(job, spec.trigger):
        # "Every 2 weeks on monday" starts next Monday, but a file means the same whenever it is applied.
        del changes["anchor_at"]
    if changes.keys() & {"args", "kwargs"}:
        before = named_arguments(job.task, job.args, job.kwargs)
        if before == named_arguments(target["task"], target["args"], target["kwargs"]):
            changes.pop("args", None)
            changes.pop("kwargs", None)
    return changes


def _keeps_time(job: Job, trigger: CalendarInterval) -> bool:
    """Return whether a job starts on the same day of the week or month as a trigger, and at the same time."""
    assert job.anchor_at is not None
    first, later = sorted([job.anchor_at, trigger.start])
    step = 7 if trigger.unit == "days" and trigger.count % 7 == 0 else 1
    steps = CalendarInterval(step, trigger.unit, first, trigger.timezone)
    return steps.next_after(later - durations.TICK) == later


def _differences(job: Job, changes: Mapping[str, Any]) -> list[Difference]:
    later = copy(job)
    for name, value in changes.items():
        setattr(later, name, value)
    differences = [
        Difference(name, _text_of(getattr(job, name), later.timezone), _text_of(value, later.timezone))
        for name, value in changes.items()
        if name not in TRIGGER_COLUMNS and name not in ("args", "kwargs")
    ]
    if not changes.keys().isdisjoint(TRIGGER_COLUMNS):
        differences.append(Difference("schedule", _describe_schedule(job), _describe_schedule(later)))
    if changes.keys() & {"args", "kwargs"}:
        before = named_arguments(job.task, job.args, job.kwargs)
        after = named_arguments(later.task, later.args, later.kwargs)
        masked_before, masked_after = masking.masked(before), masking.masked(after)
        differences += [
            Difference(
                f"arguments.{name}", _text_of(masked_before.get(name)), _text_of(masked_after.get(name))
            )
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        ]
    return differences


def _describe_schedule(job: Job) -> str:
    """Describe a schedule; an interval with its start, which may be all that changes."""
    start = f", from {local_words(job.anchor_at, job.timezone)}" if job.anchor_at else ""
    return f"{words_of(job)}{start}"


def _text_of(value: Any, zone: str = "") -> str:
    if isinstance(value, datetime):
        return end_text(value, zone)
    if isinstance(value, timedelta):
        return durations.typed(value)
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _jobs_named_in(actor: Actor, source: str, specs: Sequence[DescribedJob]) -> dict[str, list[Job]]:
    """Return the active jobs of other sources, or of none, that have the name of a new job, oldest first."""
    by_name: dict[str, list[Job]] = defaultdict(list)
    names = sorted({str(spec.columns["name"]) for spec in specs})
    for start in range(0, len(names), CHUNK):
        chunk = names[start : start + CHUNK]
        mine = actor.visible(Job.objects.owned_by(actor.user.pk)).active()
        jobs = mine.filter(name__in=chunk).exclude(source=source)
        # Also by skeleton, which comes before the name in the index.
        for job in jobs.filter(name_skeleton__in={skeleton(name) for name in chunk}).order_by("pk"):
            by_name[job.name].append(job)
    return by_name


def _adopt(candidates: Mapping[str, list[Job]], spec: DescribedJob) -> Job | None:
    """Return the job of this name and task that the file takes over, if there is one.

    A job that no file describes may differ; one that moves from another file must be equal.
    """
    same = [job for job in candidates.get(spec.columns["name"], []) if job.task == spec.columns["task"]]
    free = [job for job in same if not job.source]
    moved = [job for job in same if job.source and job.source_key in (spec.key, job.name)]
    equal = (job for job in [*free, *moved] if _changes(job, spec) == {})
    chosen = next(equal, free[0] if free else None)
    if chosen:
        candidates[chosen.name].remove(chosen)
    return chosen


def _add_problems(plan: Plan, spec: DescribedJob, error: Err) -> None:
    if not error.errors:
        plan.problems.append(Problem(spec.place_of(""), spec.key, error))
    plan.problems += [
        Problem(spec.place_of(column), f"{spec.key}: {' '.join(reasons)}")
        for column, reasons in error.errors.items()
    ]
