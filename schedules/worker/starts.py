"""The start of claimed executions by a worker."""

from functools import partial

from django.db import InterfaceError, InternalError, NotSupportedError, OperationalError, connections

from schedules import clock, engine
from schedules.engine import Started
from schedules.worker.context import ClusterContext


def start_executions(context: ClusterContext, attempt: int, execution_ids: list[int]) -> list[Started]:
    """Start the executions that are still ours; reconnect once if the connection broke since the last run.

    Leave out those that are locked: their leases expire, and then they are queued again.
    """
    start = partial(engine.start_runs, context.cluster_id, attempt, execution_ids)
    try:
        with context.turns.take():
            return start(clock.now())
    except (OperationalError, InterfaceError, InternalError, NotSupportedError) as error:
        if engine.is_lock_timeout(error):
            context.report_blocked()
            return start(clock.now(), skip_locked=True)
        # PostgreSQL reports "not supported" when a migration changed a table that a prepared plan uses, and an internal
        # error when it ended a transaction that took too long.
        connections["default"].close()
        return start(clock.now())
