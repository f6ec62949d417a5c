"""Routes of runs: list, show, and what they printed."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.runs import OutputFilter, OutputOut, RunFilters, RunsOut, ShownRunOut
from schedules.services import listing

router = Router(tags=["runs"])
route(router, "GET ", listing.list_runs, RunsOut, query=RunFilters)
route(router, "GET /{int:run}", listing.show_run, ShownRunOut)
route(router, "GET /{int:run}/output", listing.show_output, OutputOut, query=OutputFilter)
