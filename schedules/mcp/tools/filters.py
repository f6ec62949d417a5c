"""Arguments that select jobs: their types and descriptions, and how they are read."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from schedules import clock, limits
from schedules.mcp.tools.arguments import read_moment, refuse
from schedules.models import Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.result import Err, Ok, Result
from schedules.services import Actor
from schedules.services.filters import STATUSES_OF_OUTCOME, JobFilter
from schedules.tasks import registry

# The outcomes that a job does not remember are looked for in its runs of this long.
USUAL_PERIOD = timedelta(days=7)

OfStatus = Annotated[
    str | None,
    Field(description="State of the job.", json_schema_extra={"enum": [*Job.Status.values, None]}),
]
# Periods that people name, by the moment since when they last.
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

Query = Annotated[str | None, Field(description="Words of its name, message, label, tags …")]
Tag = Annotated[str | None, Field(description="One of its tags.")]
OfTask = Annotated[str | None, Field(description='Its task, like "notify".')]
HadOutcome = Annotated[
    str | None,
    Field(
        description="How its last run ended; with since, any run.",
        json_schema_extra={"enum": [*STATUSES_OF_OUTCOME, None]},
    ),
]
Since = Annotated[str | None, Field(description='Ran since, like "7 days ago" or "monday".')]


def read_filter(
    actor: Actor,
    *,
    query: str | None = None,
    tag: str | None = None,
    task: str | None = None,
    outcome: str | None = None,
    since: str | None = None,
) -> Result[JobFilter]:
    """Turn the arguments that select jobs into a filter."""
    for name, text in {"query": query, "tag": tag}.items():
        if text and (len(text) > limits.NAME_LENGTH or limits.line_problem(text)):
            return refuse(name, f"use at most {limits.NAME_LENGTH} printable characters")
    if task and registry.get(task) is None:
        return refuse("task", f"Unknown task: {task}")
    if outcome and outcome not in STATUSES_OF_OUTCOME:
        return refuse("outcome", f"choose one of: {', '.join(STATUSES_OF_OUTCOME)}")
    moment = None
    if since:
        zone = actor.read_profile().zone
        said = _PERIODS.get(" ".join(since.lower().split()), since)
        read = read_moment(said, zone, clock.now(), "since", past=True, has_horizon=False)
        if isinstance(read, Err):
            return read
        moment = read.value
    elif outcome and outcome not in OUTCOME_LETTERS:
        moment = clock.now() - USUAL_PERIOD
    return Ok(JobFilter((query or "").strip(), (tag or "").strip(), task or "", outcome or "", moment))
