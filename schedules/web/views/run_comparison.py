"""Compares a run with others of its job: its neighbours, its usual duration, and the output of the last success."""

from dataclasses import dataclass
from datetime import timedelta
from difflib import unified_diff
from itertools import islice
from typing import Any

from schedules.models import Execution
from schedules.services.run_list import read_again, runs_around
from schedules.services.runs.outputs import output_since
from schedules.web.views.job_facts import percentile

# How many earlier runs are searched.
MAX_RUNS_BEFORE = 200
COMPARED_LINES = 40
SHOWN_LINES = 30


@dataclass(frozen=True)
class Neighbours:
    """The runs of a job around one of them."""

    previous: int | None = None
    following: int | None = None
    last_success: int | None = None
    usual_duration: timedelta | None = None
    """The median duration of the earlier successes."""


def neighbours_of(run: Execution) -> Neighbours:
    """Find the neighbours of a run, in the order of the index of its job."""
    if run.job_id is None:
        return Neighbours()
    before, following = runs_around(run, ("pk", "status", "started_at", "finished_at"), MAX_RUNS_BEFORE)
    succeeded = [each for each in before if each.status == Execution.Status.SUCCEEDED]
    durations = [
        each.finished_at - each.started_at for each in succeeded if each.started_at and each.finished_at
    ]
    return Neighbours(
        before[0].pk if before else None,
        following,
        succeeded[0].pk if succeeded else None,
        percentile(durations, 50),
    )


@dataclass(frozen=True)
class Comparison:
    """The differences between an unsuccessful run and the last success before it."""

    success: Execution
    exit_codes: tuple[Any, Any] | None
    diff: str


def compare(run: Execution, neighbours: Neighbours, output: str) -> Comparison | None:
    """Compare an unsuccessful run with the last success before it; return None if there is nothing to compare."""
    if run.finished_at is None or run.status == Execution.Status.SUCCEEDED or not run.attempt:
        return None
    if neighbours.last_success is None:
        return None
    success = read_again(neighbours.last_success)
    codes = (_exit_code(success.result), _exit_code(run.result))
    before = output_since(success).text
    lines = unified_diff(_tail(before), _tail(output), n=1, lineterm="")
    diff = "\n".join(line for line in islice(lines, 2, SHOWN_LINES) if not line.startswith("@@"))
    return Comparison(success, None if codes == (None, None) else codes, diff)


def _exit_code(result: Any) -> Any:
    return result.get("exit_code") if isinstance(result, dict) else None


def _tail(text: str) -> list[str]:
    return text.splitlines()[-COMPARED_LINES:]
