"""Schemas of previews, upcoming runs, tasks, and the token of the caller."""

from typing import Any

from ninja import Router
from pydantic import Field

from schedules.api.access import own_token
from schedules.api.common import SCHEDULE, Filter, Moment, Output
from schedules.api.endpoints import route
from schedules.services.jobs import operations
from schedules.services.people import operations as people
from schedules.spec.job import ScheduleSpec


class PreviewIn(ScheduleSpec):
    """A schedule to look at."""

    schedule: str = SCHEDULE
    count: int = Field(5, ge=1, le=100)


class UpcomingFilter(Filter):
    """Which runs ahead to list."""

    hours: float = Field(24, gt=0, le=744)
    limit: int = Field(50, ge=1, le=200)
    job: str = Field("", max_length=200, description="The id, number or exact name of a job.")


class PreviewOut(Output):
    """A schedule in words, with its next runs."""

    description: str
    timezone: str
    next_runs: list[Moment]
    warnings: list[str]
    waits_for_start: bool


class ComingOut(Output):
    """A run ahead; one with `only_if`, like "Backup fails", may not come, and quiet hours may hold a message."""

    at: Moment
    id: str
    name: str
    only_if: str | None
    held_until: Moment | None


class UpcomingOut(Output):
    """The next runs in order, and whether a worker is running that will start them."""

    upcoming: list[ComingOut]
    timezone: str
    is_worker_running: bool


class TaskOut(Output):
    """A task that jobs can use, with the JSON Schema of its arguments."""

    name: str
    description: str
    arguments: dict[str, Any]
    takes_more_values: bool = Field(description="Whether it takes values that have no name.")


class TasksOut(Output):
    """The tasks that the owner of the token may use."""

    tasks: list[TaskOut]


class MeOut(Output):
    """Whose token this is, and what it allows."""

    user: str
    token: str
    kind: str
    scopes: list[str]
    tools: list[str]
    expires_at: Moment | None
    timezone: str
    default_topic: str
    default_channel: str
    alert_topic: str
    alert_channel: str
    version: str
    is_worker_running: bool


router = Router(tags=["schedule"])


route(router, "GET /me", people.show_me, MeOut, given=own_token)
route(router, "GET /tasks", operations.list_tasks, TasksOut)
route(router, "POST /preview", operations.preview_schedule, PreviewOut, body=PreviewIn, writes=False)
route(router, "GET /upcoming", operations.list_upcoming, UpcomingOut, query=UpcomingFilter)
