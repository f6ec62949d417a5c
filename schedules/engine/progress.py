"""Runs in progress: store their output and what their agents do, and find those that a cluster has lost."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Value
from django.db.models.functions import Greatest

from schedules import clock
from schedules.engine.history import Outcome
from schedules.engine.incidents import IncidentKind, end_all, raise_incident
from schedules.engine.sql.runs import Started
from schedules.models import AgentRun, Execution, Incident, PromptGate, RunOutput
from schedules.tasks.interface import OutputText

Status = Execution.Status


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


def update_limit_incident(owner_id: int, values: Mapping[str, Any], now: datetime) -> None:
    """Raise an incident if a run was skipped because of a daily limit; the first run that fits ends it."""
    subject = f"limits of {values.get('runner')}"
    if values.get("cap"):
        raise_incident(
            IncidentKind.OVER_LIMIT, owner_id, subject, f"Runner {values['runner']}", values["cap"], now
        )
    elif values.get("ended_at"):
        # Runs that were already under way when the limit was reached do not end the incident.
        open_before = Incident.objects.filter(
            owner=owner_id, kind=IncidentKind.OVER_LIMIT, subject=subject, opened_at__lt=values["started_at"]
        )
        end_all(open_before, now)


def remember_gates(outcomes: Sequence[Outcome]) -> None:
    """Remember the gate answers of runs that succeeded or wait in the inbox; the others ask their gate again.

    A prompt in the inbox gets the answer of its gate. The caller has locked the runs.
    """
    settled = [outcome for outcome in outcomes if outcome.status in (Status.SUCCEEDED, Status.WAITING)]
    PromptGate.objects.bulk_create(
        [
            PromptGate(job_id=item.job_id, digest=item.gate["digest"], changed_at=item.finished_at)
            for item in settled
            if item.gate and item.gate["digest"]
        ],
        update_conflicts=True,
        unique_fields=["job"],
        update_fields=["digest", "changed_at"],
    )
    waiting = {item.execution_id: item.gate for item in settled if item.status == Status.WAITING}
    for row in Execution.objects.filter(pk__in=list(waiting)).only("given"):
        row.given = {**(row.given or {}), "gate": waiting[row.pk]}
        row.save(update_fields=["given"])
