"""What is ahead, and who asks."""

from typing import Any

from pydantic import Field

from schedules.api.schemas.common import SCHEDULE, Filter, Input, Output, Zone


class PreviewIn(Input):
    """A schedule to look at."""

    schedule: str = SCHEDULE
    timezone: Zone | None = None
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
    next_runs: list[str]
    warnings: list[str]
    waits_for_start: bool


class ComingOut(Output):
    """A run ahead."""

    at: str
    id: str
    name: str


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
    expires_at: str | None
    timezone: str
    default_topic: str
    version: str
    is_worker_running: bool
