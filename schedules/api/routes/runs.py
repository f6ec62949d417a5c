"""Runs: list, show, and what they printed."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from schedules import clock, services
from schedules.api.auth import actor_of
from schedules.api.endpoints import reads
from schedules.api.paging import runs_page
from schedules.api.problems import problem_of
from schedules.api.reading import read_run_query
from schedules.api.schemas.runs import OutputFilter, OutputOut, RunFilters, RunsOut, ShownRunOut
from schedules.models import Execution
from schedules.result import Code, Err
from schedules.services import Actor
from schedules.services.documents import agent_json, masked_run
from schedules.services.run_list import find_run
from schedules.services.runs.agent_runs import agent_run_of

router = Router(tags=["runs"])


@reads(router, "", RunsOut)
def list_runs(request: HttpRequest, filters: Query[RunFilters]) -> Any:
    """List runs, the newest first, perhaps of one job, with one outcome or since a time."""
    actor = actor_of(request)
    return runs_page(actor, read_run_query(actor, filters, clock.now()), filters)


@reads(router, "/{int:run}", ShownRunOut)
def show_run(request: HttpRequest, run: int) -> Any:
    """Show a run: when it was due, started and ended, its result or error, an explanation, and what its agent did."""
    actor = actor_of(request)
    shown = run_of(actor, run)
    return masked_run(shown, actor.read_profile().zone) | {"agent": agent_json(agent_run_of(shown))}


@reads(router, "/{int:run}/output", OutputOut)
def show_output(request: HttpRequest, run: int, filters: Query[OutputFilter]) -> Any:
    """Return what a run has printed, whole or from a position on, also while it goes on."""
    part = services.output_since(run_of(actor_of(request), run), filters.position, filters.attempt)
    return {
        "text": part.text,
        "position": part.position,
        "attempt": part.attempt,
        "is_ended": part.is_ended,
    }


def run_of(actor: Actor, run_id: int) -> Execution:
    run = find_run(actor, run_id)
    if run is None:
        raise problem_of(Err(Code.RUN_NOT_FOUND, run_id))
    return run
