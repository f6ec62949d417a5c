"""Previews of schedules, upcoming runs, tasks, and the token of the caller."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.routes.access import own_token
from schedules.api.schemas.schedule import (
    MeOut,
    PreviewIn,
    PreviewOut,
    TasksOut,
    UpcomingFilter,
    UpcomingOut,
)
from schedules.services.jobs import operations
from schedules.services.people import operations as people

router = Router(tags=["schedule"])


route(router, "GET /me", people.show_me, MeOut, given=own_token)
route(router, "GET /tasks", operations.list_tasks, TasksOut)
route(router, "POST /preview", operations.preview_schedule, PreviewOut, body=PreviewIn, writes=False)
route(router, "GET /upcoming", operations.list_upcoming, UpcomingOut, query=UpcomingFilter)
