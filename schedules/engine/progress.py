"""Runs in progress: store their output and what their agents do, and find those that a cluster has lost."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Value
from django.db.models.functions import Greatest

from schedules import clock
from schedules.engine.agent_limits import update_limit_incident
from schedules.engine.sql.runs import Started
from schedules.models import AgentRun, Execution, RunOutput
from schedules.tasks.interface import OutputText


def save_output(execution_id: int, attempt: int, output: OutputText) -> None:
    """Store the output of an attempt so far, in one statement; its worker calls this about every second."""
    row = RunOutput(
        execution_id=execution_id,
        attempt=attempt,
        head=output.head,
        tail=output.tail,
        position=output.position,
        colours=output.colours,
        updated_at=clock.now(),
    )
    RunOutput.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["execution", "attempt"],
        update_fields=["head", "tail", "position", "colours", "updated_at"],
    )


def save_agent_run(started: Started, values: Mapping[str, Any]) -> None:
    """Store what the agent of an attempt has done so far; its worker calls this about every second."""
    row = AgentRun(
        execution_id=started.execution_id,
        attempt=started.attempt,
        job_id=started.job_id,
        owner_id=started.owner_id,
        **values,
    )
    AgentRun.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["execution", "attempt"],
        update_fields=list(values),
    )
    update_limit_incident(started.owner_id, values, clock.now())


def end_agent_runs(abandoned: Iterable[Execution], now: datetime, reason: str) -> None:
    """Close the records of agents in attempts whose workers died; their verdict is unknown."""
    for run in abandoned:
        if run.task == "prompt":
            rows = AgentRun.objects.filter(execution=run.pk, attempt=run.attempt, ended_at=None)
            # The guard ended the program at the end of the lease at the latest, perhaps long ago.
            ended_at = Greatest("started_at", Value(min(now, run.lease_until or now)))
            rows.update(ended_at=ended_at, verdict=AgentRun.Verdict.UNKNOWN, words=reason)


def find_lost(cluster_id: int, attempts: Mapping[int, int]) -> list[int]:
    """Return the executions that this cluster no longer runs in these attempts."""
    running = Execution.objects.filter(
        pk__in=list(attempts), status=Execution.Status.RUNNING, cluster_id=cluster_id
    )
    mine = dict(running.order_by().values_list("pk", "attempt"))
    return [execution_id for execution_id, attempt in attempts.items() if mine.get(execution_id) != attempt]
