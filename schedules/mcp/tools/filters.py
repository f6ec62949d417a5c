"""Filters: the arguments that select jobs, and how they become a query."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from schedules import clock
from schedules.mcp.tools.arguments import Group, one_of
from schedules.mcp.tools.moments import read_moment
from schedules.models import Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.result import Err, Ok, Result, invalid
from schedules.services import Actor
from schedules.services.job_list import STATUSES_OF_OUTCOME, JobQuery
from schedules.services.text_search import text_problem
from schedules.tasks import registry

# How far back runs are searched for outcomes that a job itself does not store.
DEFAULT_PERIOD = timedelta(days=7)

# Periods that people name, and when each begins.
_PERIODS = {
    "this week": "monday",
    "last week": "7 days ago",
    "past week": "7 days ago",
    "a week": "7 days ago",
    "last month": "30 days ago",
    "past month": "30 days ago",
    "last night": "yesterday at 18:00",
    "this morning": "today",
}


Query = Annotated[str | None, Field(description="Words in its name, message, tags …")]
TaskName = Annotated[str | None, Field(description="Its task, like notify.")]

Outcome = one_of("How the run ended.", STATUSES_OF_OUTCOME)
FILTERS: Group = {
    "status": one_of("failed: its last run failed.", Job.Status.values),
    "query": Query,
    "tag": Annotated[str | None, Field(description="One of its tags.")],
    "task": TaskName,
    "outcome": one_of("How its last run ended; with since, any run.", STATUSES_OF_OUTCOME),
    "since": Annotated[str | None, Field(description="Ran since, like 7 days ago or monday.")],
}


def read_filter(actor: Actor, filters: Mapping[str, Any]) -> Result[JobQuery]:
    """Turn the arguments that select jobs into a query."""
    status = filters.get("status")
    query, tag = filters.get("query") or "", filters.get("tag") or ""
    task, outcome, since = filters.get("task"), filters.get("outcome"), filters.get("since")
    if status is not None and status not in Job.Status.values:
        return invalid("status", "unknown")
    for name, text in {"query": query, "tag": tag}.items():
        if problem := text_problem(text):
            return invalid(name, problem)
    if task and registry.get(task) is None:
        return invalid("task", f"Unknown task: {task}")
    if outcome and outcome not in STATUSES_OF_OUTCOME:
        return invalid("outcome", f"choose one of: {', '.join(STATUSES_OF_OUTCOME)}")
    moment = None
    if since:
        zone = actor.read_profile().zone
        phrase = _PERIODS.get(" ".join(since.lower().split()), since)
        start = read_moment(phrase, zone, clock.now(), "since", past=True, has_horizon=False)
        if isinstance(start, Err):
            return start
        moment = start.value
    elif outcome and outcome not in OUTCOME_LETTERS:
        moment = clock.now() - DEFAULT_PERIOD
    return Ok(
        JobQuery(
            text=query.strip(),
            tag=tag.strip(),
            task=task or "",
            outcome=outcome or "",
            since=moment,
            status=status or "",
        )
    )
