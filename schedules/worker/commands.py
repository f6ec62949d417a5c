"""The commands of a worker: store their output while they run, and interrupt them before the worker is killed."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import Error, connections

from schedules import engine
from schedules.engine import Started
from schedules.tasks.interface import OutputText
from schedules.worker.context import ClusterContext
from schedules.worker.database_errors import reason_of
from schedules.worker.outcomes import Leases
from schedules.worker.sessions import use_engine_session

logger = logging.getLogger(__name__)

# The fraction of the stop time that commands have to clean up, between the interrupt and being killed.
TIME_TO_CLEAN_UP = 0.4
CHECK_FOR_STOP_SECONDS = 0.1


class Commands:
    """The commands in progress, each of which is a task of the event loop and holds a permit."""

    def __init__(
        self, context: ClusterContext, leases: Leases, tasks: Mapping[int, asyncio.Task[None]]
    ) -> None:
        self.drain_ends_at = math.inf
        """The latest time at which the worker ends, on the monotonic clock."""
        self._context = context
        self._leases = leases
        self._tasks = tasks
        self._attempts: dict[int, int] = {}
        self._interrupted: set[int] = set()
        self._output_writer = ThreadPoolExecutor(1, "output", initializer=use_engine_session)

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, started: Started) -> None:
        self._attempts[started.execution_id] = started.attempt

    def remove(self, started: Started, permit: int | None) -> None:
        """Forget a command that has ended, unless a later attempt has come to this worker, too."""
        if self._attempts.get(started.execution_id) == started.attempt:
            del self._attempts[started.execution_id]
        if permit is not None:
            self._context.permits.give_back(permit)

    def is_interrupted(self, started: Started) -> bool:
        """Return whether the command was interrupted because the cluster is stopping."""
        return started.execution_id in self._interrupted

    async def interrupt_in_time(self, execution_id: int) -> None:
        """Interrupt a command while it has time to clean up, even if a plain function keeps this worker busy."""
        time_to_clean_up = settings.CRONTY_STOP_SECONDS * TIME_TO_CLEAN_UP
        while execution_id in self._attempts:
            await asyncio.sleep(CHECK_FOR_STOP_SECONDS)
            seconds_left = min(self._context.seconds_left, self.drain_ends_at - time.monotonic())
            task = self._tasks.get(execution_id)
            if task and seconds_left < time_to_clean_up:
                self._interrupted.add(execution_id)
                task.cancel()
                return

    async def stop_lost(self) -> None:
        """Stop the commands that this cluster no longer holds: they may be running elsewhere."""
        lost: list[int] = []

        def find(cluster_id: int, attempts: dict[int, int], now: datetime) -> None:
            lost.extend(engine.find_lost(cluster_id, attempts))

        await asyncio.wrap_future(self._leases.change(find, dict(self._attempts)))
        for execution_id in lost:
            if task := self._tasks.get(execution_id):
                logger.warning(
                    "Execution %s was taken over or ended: its command is stopped",
                    execution_id,
                    extra={"execution": execution_id},
                )
                task.cancel()

    async def save_output(self, started: Started, output: OutputText) -> None:
        await self._write(partial(engine.save_output, started.execution_id, started.attempt, output))

    async def save_agent_run(self, started: Started, values: Mapping[str, Any]) -> None:
        await self._write(partial(engine.save_agent_run, started, values))

    async def _write(self, save: Callable[[], None]) -> None:
        def save_in_turn() -> None:
            try:
                connections["default"].close_if_unusable_or_obsolete()
                with self._context.turns.take():
                    save()
            except Error as error:
                # The next save includes this output.
                logger.warning("Could not store output (%s)", reason_of(error))
                connections["default"].close()

        # The event loop may have just ended.
        with suppress(RuntimeError):
            await asyncio.get_running_loop().run_in_executor(self._output_writer, save_in_turn)

    def close(self) -> None:
        self._output_writer.submit(connections.close_all)
        self._output_writer.shutdown(wait=False)
