"""Runs of prompts as a worker does them: claimed, started, called and settled."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

from django.db import connections

from schedules import clock, engine
from schedules.models import Approval, Cluster, Execution
from schedules.tasks import registry
from schedules.worker.calls import run_coroutine
from tests.waiting import wait_for


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


class Working:
    """A run in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._thread = threading.Thread(target=_closing, args=(work, cluster))
        self._thread.start()

    def asked(self, count: int = 1) -> Approval:
        """Wait until a person was asked so often, and return what was asked last."""
        wait_for(lambda: Approval.objects.count() == count or not self._thread.is_alive())
        return Approval.objects.order_by("-pk")[0]

    def end(self) -> Execution:
        """Return the run after its end."""
        self._thread.join()
        return Execution.objects.get()
