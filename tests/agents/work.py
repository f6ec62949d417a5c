"""Runs of prompts as a worker does them: claimed, started, called and settled."""

import asyncio
from datetime import timedelta
from typing import Any

from django.db import connections

from schedules import clock, engine
from schedules.models import Cluster, Execution
from schedules.tasks import registry
from schedules.worker.calls import run_coroutine


def _closing(write: Any, *arguments: Any) -> None:
    try:
        write(*arguments)
    finally:
        # This thread is not used again.
        connections.close_all()


def work(cluster: Cluster) -> Execution | None:
    """Claim and do the next run that is due, and return it as it is then; None if nothing is due."""
    now = clock.now() + timedelta(milliseconds=1)
    claims = engine.claim_runs(cluster.pk, now, 1)
    if not claims:
        return None
    started = engine.start_runs(cluster.pk, claims[0].attempt, [claims[0].execution_id], now)[0]

    async def save_output(output: Any) -> None:
        await asyncio.to_thread(_closing, engine.save_output, started.execution_id, started.attempt, output)

    async def save_agent_run(values: Any) -> None:
        await asyncio.to_thread(_closing, engine.save_agent_run, started, values)

    outcome = asyncio.run(run_coroutine(started, registry.get("prompt"), save_output, save_agent_run))
    engine.settle_runs(cluster.pk, [outcome])
    return Execution.objects.get(pk=started.execution_id)
