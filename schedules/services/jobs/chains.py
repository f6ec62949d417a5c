"""Job chains: what a job runs after, what runs after it, when those runs are expected; no cycles, no long chains."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.db.models import F

from schedules import engine
from schedules.models import Execution, Job
from schedules.models.jobs import JobQuerySet, trigger_of_job
from schedules.result import Err, Ok, Result, invalid
from schedules.services.jobs.forecasts import (
    MAX_UPCOMING,
    UPCOMING_COLUMNS,
    next_runs_of,
    planned_runs,
    words_of,
)
from schedules.services.jobs.references import resolve_job
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import AFTER, After, Ending
from schedules.when.zones import local_words

Status = Execution.Status
_ENDINGS = (Status.SUCCEEDED, Status.FAILED, Status.LOST)
_EXPECTED = 3


@dataclass(frozen=True, slots=True)
class Link:
    """A neighbor in a chain, with a description of what connects the two jobs."""

    job: Job
    words: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The job that a job follows, and those that follow it."""

    upstream: Job | None
    followers: list[Link]
    expected: list[datetime]
    """When its next runs are expected if the upstream job runs on schedule and takes as long as last time."""
    only_if: str
    """On what those depend, like "Backup fails"; empty if they come however the upstream job ends."""


def chain_of(actor: Actor, job: Job, now: datetime) -> Chain:
    """Return those neighbors of a job that the actor may see."""
    rows = actor.jobs().filter(follows=job.pk).order_by("pk")[:MAX_FOLLOWERS]
    upstream = actor.jobs().filter(pk=job.follows_id).first() if job.follows_id else None
    links = [Link(row, words_of(row)) for row in rows]
    return Chain(upstream, links, expected_runs(job, now), conditions_of([job]).get(job.pk, ""))


def expected_runs(job: Job, now: datetime, count: int = _EXPECTED) -> list[datetime]:
    """Return when the next runs of a following job are expected; an empty list for any other job."""
    shift, above = timedelta(0), job
    for _ in range(engine.DEEPEST_CHAIN + 1):
        trigger = after_of(above)
        upstream = Job.objects.filter(pk=above.follows_id).first() if trigger and above.follows_id else None
        if trigger is None or upstream is None:
            break
        shift += trigger.delay + (upstream.last_duration or timedelta(0))
        above = upstream
    return [] if above is job else [slot + shift for slot in next_runs_of(above, now, count)]


def conditions_of(jobs: Iterable[Any]) -> dict[int, str]:
    """Return on what the runs of those jobs depend that may not run at all, like "Backup fails", by key."""
    following = {job.pk: job for job in jobs if str(job.cron).startswith(AFTER)}
    return {pk: condition for pk, job in following.items() if (condition := _condition_of(job))}


def _condition_of(job: Any) -> str:
    """Return the nearest condition in the chain of a job: one that runs after any end has that of its upstream job."""
    for _ in range(engine.DEEPEST_CHAIN):
        try:
            trigger = trigger_of_job(job)
        except TriggerError:
            break
        if not isinstance(trigger, After) or (upstream := Job.objects.called(trigger.job).first()) is None:
            break
        if trigger.when is not Ending.ANY:
            return f"{upstream.name} {trigger.when.words}"
        job = upstream
    return ""


def upcoming_of(job: Job, now: datetime, limit: int) -> list[tuple[datetime, Any]]:
    """List the next runs of one job, planned or expected, like `upcoming`."""
    return [(at, job) for at in next_runs_of(job, now, limit) or expected_runs(job, now, limit)]


def upcoming(
    actor: Actor, now: datetime, *, hours: float = 24, limit: int = MAX_UPCOMING
) -> list[tuple[datetime, Any]]:
    """List planned and expected runs of the next hours, soonest first, each with the row of its job."""
    runs = planned_runs(actor, now, hours=hours, limit=limit)
    until = now + timedelta(hours=hours)
    if len(runs) == limit:
        until = min(until, runs[-1][0])
    expected = expected_after(actor.jobs(), runs, until, limit)
    return sorted([*runs, *expected], key=lambda run: (run[0], run[1].pk))[:limit] if expected else runs


def expected_after(
    jobs: JobQuerySet, runs: Iterable[tuple[datetime, Any]], until: datetime, limit: int
) -> list[tuple[datetime, Any]]:
    """Return the runs expected to follow these, each with the row of its job."""
    followed: list[tuple[datetime, Any]] = []
    level: dict[int, list[datetime]] = {}
    for slot, row in runs:
        level.setdefault(row.pk, []).append(slot)
    for _ in range(engine.DEEPEST_CHAIN):
        if not level or len(followed) >= limit:
            break
        below: dict[int, list[datetime]] = {}
        for row, shift in _followers(jobs, level):
            slots = [slot + shift for slot in level[row.follows_id] if slot + shift <= until]
            followed += [(slot, row) for slot in slots]
            below[row.pk] = slots
        level = below
    return followed


def _followers(jobs: JobQuerySet, level: Mapping[int, list[datetime]]) -> list[tuple[Any, timedelta]]:
    """Return the rows of the jobs that follow these, and how long after them each is expected."""
    # Sorted in Python: an ORDER BY would make SQLite read all jobs.
    rows = jobs.filter(follows__in=list(level), status=Job.Status.PENDING).order_by()
    columns = (*UPCOMING_COLUMNS, "follows_id", "took")
    pairs = []
    listed = rows.annotate(took=F("follows__last_duration")).values_list(*columns, named=True)
    for row in sorted(listed, key=attrgetter("pk")):
        try:
            trigger = trigger_of_job(row)
        except TriggerError:
            continue
        if isinstance(trigger, After):
            pairs.append((row, trigger.delay + (row.took or timedelta(0))))
    return pairs


def why_not_followed(job: Job, moment: datetime) -> tuple[datetime, str] | None:
    """Say how the upstream job last ended if that did not start this job; None if it did."""
    trigger = after_of(job)
    if trigger is None:
        return None
    upstream = Job.objects.filter(pk=job.follows_id).first() if job.follows_id else None
    if upstream is None or upstream.deleted_at is not None:
        return moment, f"The job that it runs after ({trigger.job}) no longer exists."
    ends = Execution.objects.filter(job=upstream, finished_at__isnull=False, scheduled_for__lte=moment)
    last = ends.exclude(cause=Execution.Cause.REMINDER).order_by("-scheduled_for").first()
    schedule = words_of(job)
    condition = f"This job runs {schedule[:1].lower()}{schedule[1:]}."
    if last is None or last.finished_at is None:
        return moment, f"{upstream.name} has not ended yet. {condition}"
    if last.finished_at > moment or Execution.objects.filter(job=job, origin=last.pk).exists():
        return None
    verb = last.status if last.status in _ENDINGS else f"was {last.status}"
    when = local_words(last.scheduled_for, job.timezone)
    return last.finished_at, f"{upstream.name} {verb} (run {last.pk}, {when}). {condition}"


def origin_words(row: Execution) -> str:
    """Say what other run or request started this run; empty if none did."""
    if row.cause == Execution.Cause.TRIGGER:
        return "It was started by its trigger address."
    if row.cause != Execution.Cause.AFTER or row.origin is None:
        return ""
    name = Execution.objects.filter(pk=row.origin).values_list("job_name", flat=True).first()
    return f"It was started by the end of run {row.origin}{f' of {name}' if name else ''}."


MAX_FOLLOWERS = 20

# The jobs of a file being applied, by their keys in the file and by public id.
Planned = Mapping[str, Job]


def attach_upstream(actor: Actor, job: Job, planned: Planned | None = None) -> Err | None:
    """Set the upstream job that this job's schedule names, if any; return an error for cycles and long chains."""
    trigger = after_of(job)
    if trigger is None:
        job.follows = None
        return None
    upstream = _resolve_upstream(actor, job, trigger, planned or {})
    if isinstance(upstream, Err):
        return upstream
    job.cron = replace(trigger, job=upstream.value.public_id).expression
    job.follows = upstream.value if upstream.value.pk else None
    return _problem(job, upstream.value, planned or {})


def after_of(job: Job) -> After | None:
    """Return the schedule of a job that follows another one, or None."""
    try:
        trigger = job.undelayed_trigger
    except TriggerError:
        # Validation refuses this schedule.
        return None
    return trigger if isinstance(trigger, After) else None


def followers_of(job: Job) -> list[Job]:
    """Return the jobs that follow this one, oldest first."""
    return list(Job.objects.kept().filter(follows=job.pk).order_by("pk")[:MAX_FOLLOWERS])


def link_planned(jobs: Mapping[str, Job]) -> None:
    """Set the upstream of stored jobs whose upstream job was stored after them."""
    for job in jobs.values():
        if (trigger := after_of(job)) and (upstream := jobs.get(trigger.job)) and upstream.pk:
            Job.objects.filter(pk=job.pk).update(follows=upstream.pk)


def _resolve_upstream(actor: Actor, job: Job, trigger: After, planned: Planned) -> Result[Job]:
    if upstream := planned.get(trigger.job):
        return Ok(upstream)
    match = resolve_job(actor.jobs().filter(owner=job.owner_id), trigger.job)
    if isinstance(match, Err):
        return match
    if match.value is None:
        return invalid(
            "cron", f"There is no job {trigger.job[:100]!r} to run after. Give its name, number or id."
        )
    return Ok(match.value)


def _problem(job: Job, upstream: Job, planned: Planned) -> Err | None:
    if job.task == HEARTBEAT:
        return invalid("cron", "A heartbeat needs a schedule of its own: it cannot follow another job.")
    for name in ("max_runs", "ends_at"):
        if getattr(job, name) is not None:
            return invalid(name, "Leave this empty: a job that follows another one ends with it.")
    above = _steps_above(job, upstream, planned)
    if above is None:
        return invalid(
            "cron", f"{upstream.name} runs after this job itself, so the two would start each other."
        )
    if above + _steps_below(job) > engine.DEEPEST_CHAIN:
        return invalid("cron", f"At most {engine.DEEPEST_CHAIN} jobs can run one after the other.")
    others = Job.objects.kept().filter(follows=upstream.pk).exclude(pk=job.pk) if upstream.pk else None
    if others is not None and others.count() >= MAX_FOLLOWERS:
        return invalid("cron", f"{MAX_FOLLOWERS} jobs run after {upstream.name} already.")
    return None


def _steps_above(job: Job, upstream: Job, planned: Planned) -> int | None:
    """Count the jobs upstream, stopping above the limit; return None if the job itself is among them."""
    steps, above = 0, upstream
    while steps <= engine.DEEPEST_CHAIN:
        if above.public_id == job.public_id:
            return None
        steps += 1
        trigger = after_of(above)
        following = trigger and (planned.get(trigger.job) or Job.objects.find(trigger.job))
        if not following:
            break
        above = following
    return steps


def _steps_below(job: Job) -> int:
    """Return the length of the longest chain of jobs downstream."""
    steps, level = 0, [job.pk] if job.pk else []
    while level and steps <= engine.DEEPEST_CHAIN:
        level = list(Job.objects.kept().filter(follows__in=level).values_list("pk", flat=True))
        steps += bool(level)
    return steps
