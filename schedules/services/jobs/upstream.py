"""The upstream job that a job runs after: resolve the reference to it, and refuse cycles and long chains."""

from collections.abc import Mapping
from dataclasses import replace

from schedules import engine
from schedules.models import Job
from schedules.result import Err, Ok, Result, invalid
from schedules.services.jobs.references import resolve_job
from schedules.services.permissions import Actor
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import After

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
