"""The functions that django-q2's workers call; each package names one of them, and integers."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.conf import settings
from django.db import Error, connections

from schedules import clock, engine
from schedules.engine import Started
from schedules.tasks import registry
from schedules.worker import q2
from schedules.worker.calls import run_plain
from schedules.worker.context import ClusterContext
from schedules.worker.loop import WorkerLoop
from schedules.worker.sessions import project_session
from schedules.worker.starts import start_executions

logger = logging.getLogger(__name__)

# An id that no execution has.
NO_EXECUTION = 0
# How many seconds after its last session a worker opens a new one; several probes before `KEEP_CONNECTION` ends it.
RENEW_SESSION_AFTER = 30
# For how many seconds at most a worker that is being replaced waits until its outcomes are written.
WRITE_BEFORE_END = 10
# How many seconds one thread of a worker may keep the others waiting. With Python's default, 0.005, a start or an outcome
# would wait that long after every answer of the database while coroutines run.
SWITCH_INTERVAL = 0.0005

# The loop of this process, which is global because django-q2 calls the functions below without context.
_loop: WorkerLoop | None = None


@contextmanager
def executing(context: ClusterContext, worker: int = 0) -> Iterator[WorkerLoop]:
    """Let this process, the worker of this number, run executions inside the block, and finish those in progress.

    The loop must be drained here and not in a finalizer of multiprocessing: since Python 3.13, thread pools no longer
    accept work by then.
    """
    global _loop
    loop = _loop = WorkerLoop(context, worker)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        _prepare(loop)
        yield loop
    finally:
        loop.drain(settings.CRONTY_STOP_SECONDS)
        sys.setswitchinterval(interval)
        _loop = None


def run_coroutines(attempt: int, execution_ids: list[int]) -> None:
    """Start the executions that are still ours; their coroutines go on in the background."""
    loop = _this_loop()
    if loop.is_stuck:
        _release(loop, execution_ids)
        return
    loop.start_coroutines(start_executions(loop.context, attempt, execution_ids))


def run_plain_functions(attempt: int, execution_ids: list[int]) -> None:
    """Run plain functions one after the other; the queue gives them out with a permit."""
    loop = _this_loop()
    for started in loop.start_in_sequence(attempt, execution_ids):
        with loop.leases.keep(started), project_session():
            outcome = run_plain(started, registry.get(started.task))
        loop.outcomes.add(outcome, in_sequence=True)


def run_commands(attempt: int, execution_ids: list[int]) -> None:
    """Start the commands that there are permits for, which go on in the background, and release the others."""
    loop = _this_loop()
    for number, execution_id in enumerate(execution_ids):
        permit = None if loop.is_stuck else loop.context.permits.take_command()
        if permit is None:
            _release(loop, execution_ids[number:])
            return
        started: list[Started] = []
        try:
            started = start_executions(loop.context, attempt, [execution_id])
        finally:
            if not started:
                loop.context.permits.give_back(permit)
        if started:
            loop.start_command(started[0], permit)


def probe() -> None:
    """Show, by returning, that the queue and a worker are alive.

    It also opens a new database session before the old one expires. If a coroutine blocks this worker forever, the worker
    is replaced.
    """
    loop = _this_loop()
    if loop.is_stuck:
        logger.error("A coroutine goes on after its time limit and blocks its worker, which is replaced")
        loop.outcomes.write(WRITE_BEFORE_END)
        q2.replace_worker()
    if connections["default"].connection is None or time.monotonic() >= loop.renew_session_at:
        _prepare(loop)


def _prepare(loop: WorkerLoop) -> None:
    """Open a new session and have the database plan a start: the next run would wait for both."""
    # What is wrong with the database is reported by the next start.
    with suppress(Error):
        connections["default"].close()
        engine.start_runs(loop.cluster_id, 0, [NO_EXECUTION], clock.now())
        loop.renew_session_at = time.monotonic() + RENEW_SESSION_AFTER


def _release(loop: WorkerLoop, execution_ids: list[int]) -> None:
    with loop.context.turns.take():
        engine.release_claims(loop.cluster_id, execution_ids, clock.now())


def _this_loop() -> WorkerLoop:
    assert _loop is not None, "only a worker of a cluster runs executions"
    return _loop
