"""Previews of schedules, upcoming runs, tasks, and the token of the caller."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from schedules import __version__, clock, engine, services
from schedules.api.auth import actor_of
from schedules.api.endpoints import reads, reads_by_post
from schedules.api.problems import expect, invalid_value
from schedules.api.reading import job_of
from schedules.api.schemas.schedule import (
    MeOut,
    PreviewIn,
    PreviewOut,
    TasksOut,
    UpcomingFilter,
    UpcomingOut,
)
from schedules.services.documents import iso_in
from schedules.services.jobs.chains import conditions_of, upcoming_of
from schedules.services.jobs.schedule_texts import columns_of
from schedules.services.jobs.validation import interval_problem, usable_tasks
from schedules.services.people.tokens import FAMILIES

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
    zone = actor.read_profile().zone
    fields = expect(columns_of(body.schedule, body, owner_id=actor.user.pk, now=now, zone=zone))
    zone = fields["timezone"]
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
        runs = upcoming_of(job_of(actor, filters.job), now, filters.limit)
    else:
        runs = services.upcoming(actor, now, hours=filters.hours, limit=filters.limit)
    conditions = conditions_of(job for _, job in runs)
    quiet = engine.quiet_hours_ahead(job for _, job in runs)
    return {
        "upcoming": [
            {
                "at": iso_in(at, zone),
                "id": job.public_id,
                "name": job.name,
                "only_if": conditions.get(job.pk),
                "held_until": iso_in(quiet[job.pk].until(at), zone) if job.pk in quiet else None,
            }
            for at, job in runs
        ],
        "timezone": zone,
        "is_worker_running": engine.is_any_cluster_running(now),
    }
