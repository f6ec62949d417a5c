"""Previews of schedules, upcoming runs, tasks, and the token of the caller."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules import __version__, clock, engine
from schedules.api.auth import actor_of
from schedules.api.endpoints import reads, route
from schedules.api.schemas.schedule import (
    MeOut,
    PreviewIn,
    PreviewOut,
    TasksOut,
    UpcomingFilter,
    UpcomingOut,
)
from schedules.services.documents import iso_in
from schedules.services.jobs import operations
from schedules.services.jobs.validation import usable_tasks
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


route(router, "POST /preview", operations.preview_schedule, PreviewOut, body=PreviewIn, writes=False)
route(router, "GET /upcoming", operations.list_upcoming, UpcomingOut, query=UpcomingFilter)
