"""Previews of schedules, upcoming runs, rehearsals, tasks, and the token of the caller."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from schedules import __version__, clock, engine, services
from schedules.api.auth import actor_of
from schedules.api.documents import iso_in
from schedules.api.endpoints import reads, reads_by_post
from schedules.api.problems import expect, invalid_value
from schedules.api.reading import check_texts, job_of, read_period, read_zone, schedule_fields
from schedules.api.schemas.schedule import (
    MeOut,
    PreviewIn,
    PreviewOut,
    RehearsalFilter,
    RehearsalOut,
    TasksOut,
    UpcomingFilter,
    UpcomingOut,
)
from schedules.services.job_list import JobQuery
from schedules.services.jobs.forecasts import next_runs_of
from schedules.services.jobs.validation import interval_problem, usable_tasks
from schedules.services.people.tokens import FAMILIES
from schedules.services.rehearsal.documents import rehearsal_document
from schedules.services.rehearsal.rehearsal import rehearse

router = Router(tags=["schedule"])


@reads(router, "/me", MeOut)
def show_me(request: HttpRequest) -> Any:
    """Say whose token this is, what it allows, where notifications and alerts go, and whether a worker is running.

    A channel goes before the topic.
    """
    actor = actor_of(request)
    token, profile = request.auth.token, actor.read_profile()  # type: ignore[attr-defined]
    return {
        "user": actor.user.get_username(),
        "token": token.name,
        "kind": token.kind,
        "scopes": token.scopes,
        "tools": token.families or list(FAMILIES),
        "expires_at": iso_in(token.expires_at, profile.zone),
        "timezone": profile.zone,
        "default_topic": profile.default_topic,
        "default_channel": profile.channel,
        "alert_topic": profile.failure_topic,
        "alert_channel": profile.alert_channel,
        "version": __version__,
        "is_worker_running": engine.is_any_cluster_running(clock.now()),
    }


@reads(router, "/tasks", TasksOut)
def list_tasks(request: HttpRequest) -> Any:
    """List the tasks that jobs can use, with the JSON Schema of their arguments."""
    tasks = usable_tasks(actor_of(request))
    return {
        "tasks": [
            {"name": task.name, "description": task.description, "arguments": task.schema} for task in tasks
        ]
    }


@reads_by_post(router, "/preview", PreviewOut)
def preview_schedule(request: HttpRequest, body: PreviewIn) -> Any:
    """Say what a schedule means, and when it runs next; nothing is stored."""
    actor, now = actor_of(request), clock.now()
    zone = read_zone(body.timezone) if body.timezone else actor.read_profile().zone
    fields = schedule_fields(body.schedule, body, actor.user.pk, zone, now) | {"timezone": zone}
    if fields["every"] and (problem := interval_problem(actor, fields["every"])):
        expect(problem)
    preview = expect(services.preview(actor.user.pk, fields, now, body.count))
    if not preview.next_runs and not preview.waits_for:
        raise invalid_value("schedule", "this moment is in the past")
    return {
        "description": preview.description,
        "timezone": zone,
        "next_runs": [iso_in(run, zone) for run in preview.next_runs],
        "warnings": preview.warnings,
        "waits_for_start": bool(preview.waits_for),
    }


@reads(router, "/upcoming", UpcomingOut)
def list_upcoming(request: HttpRequest, filters: Query[UpcomingFilter]) -> Any:
    """List the runs of the next hours in order, or the next runs of one job."""
    actor, now = actor_of(request), clock.now()
    zone = actor.read_profile().zone
    if filters.job:
        job = job_of(actor, filters.job)
        runs: list[tuple[Any, Any]] = [(at, job) for at in next_runs_of(job, now, filters.limit)]
    else:
        runs = services.upcoming(actor, now, hours=filters.hours, limit=filters.limit)
    return {
        "upcoming": [{"at": iso_in(at, zone), "id": job.public_id, "name": job.name} for at, job in runs],
        "timezone": zone,
        "is_worker_running": engine.is_any_cluster_running(now),
    }


@reads(router, "/rehearsal", RehearsalOut)
def rehearse_period(request: HttpRequest, filters: Query[RehearsalFilter]) -> Any:
    """Say what a period will bring if nothing changes: what fires, what is left out and why, collisions, and spend."""
    actor, now = actor_of(request), clock.now()
    zone = actor.read_profile().zone
    check_texts(tag=filters.tag)
    start, end = read_period(filters.from_, filters.to, zone, now)
    job = job_of(actor, filters.job) if filters.job else None
    query = JobQuery(tag=filters.tag.strip())
    rehearsal = expect(rehearse(actor, now, start=start, end=end, query=query, job=job))
    return {
        **rehearsal_document(rehearsal, zone, filters.limit),
        "is_worker_running": engine.is_any_cluster_running(now),
    }
