"""The packages in which a cluster divides its claims among its workers, and how a worker runs them.

django-q2 passes a package from the claim loop to a worker: one of the functions below, and integers.

A package also carries the pings to `CRONTY_HEARTBEAT_URL`, with which an external monitor notices when no cluster claims:
the claim loop asks for one after a claim that worked, and a worker sends it. So a ping shows that the database, the claim
loop, the queue and a worker work.
"""

import asyncio
import logging
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from django.conf import settings
from django.db import Error, connections

from schedules import clock, engine
from schedules.engine import Claim, Started
from schedules.tasks import outbound, registry
from schedules.tasks.registry import Lane
from schedules.worker import q2
from schedules.worker.calls import run_plain
from schedules.worker.context import PLAIN_CHUNK, ClusterContext, PlainPackage
from schedules.worker.loop import WorkerLoop
from schedules.worker.q2 import Package
from schedules.worker.sessions import project_session

logger = logging.getLogger(__name__)
CHUNK = 250
# The plain functions of a package run one after the other, so a package has several only in a burst.
PLAIN_BURST_PER_WORKER = 20
# How many seconds longer than its longest run a package may take before django-q2 kills its worker and all its runs. Each
# run has its own limit, so this is for functions that ignore it, with time for a slow database.
PLAIN_SLACK = 30
# The time limit of a package that only starts runs; long, because it may have to wait for the database.
START_LIMIT = 3600
# An id that no execution has.
NO_EXECUTION = 0
# How many seconds a worker keeps a session; several probes shorter than `KEEP_CONNECTION`, which would end it.
RENEW_SESSION_AFTER = 30
# How many seconds a worker that is being replaced waits at most until its outcomes are written.
WRITE_BEFORE_END = 10
# How many seconds a thread of a worker may hold the GIL. With Python's default, 0.005, a start or an outcome would wait that
# long after every answer of the database while coroutines run.
SWITCH_INTERVAL = 0.0005
# The loop of this process. It is global because django-q2 calls the functions below without context.
_loop: WorkerLoop | None = None
TIMEOUT_SECONDS = 10
# How much of an answer is read: only its status matters.
MAX_BYTES = 1024


def pack(claims: list[Claim]) -> Iterator[Package]:
    """Pack coroutines in chunks that run concurrently, and plain functions alone or in short sequences.

    Plain functions come last, because the others start almost at once.
    """
    lanes: dict[Lane, dict[int, list[Claim]]] = {lane: defaultdict(list) for lane in Lane}
    for claim in claims:
        lanes[lane_of(claim)][claim.attempt].append(claim)
    for attempt, group in lanes[Lane.COROUTINE].items():
        for chunk in _chunks(group, CHUNK):
            yield _package(run_coroutines, attempt, chunk)
    for attempt, group in lanes[Lane.COMMAND].items():
        yield _package(run_commands, attempt, group)
    burst = PLAIN_BURST_PER_WORKER * settings.CRONTY_WORKERS
    for attempt, group in lanes[Lane.PLAIN].items():
        # Start at-most-once runs alone: others may kill the worker after they count as started but before their turn.
        alone = [claim for claim in group if claim.at_most_once]
        others = [claim for claim in group if not claim.at_most_once]
        size = min(PLAIN_CHUNK, 1 + len(group) // burst)
        for chunk in chain(_chunks(others, size), _chunks(alone, 1)):
            longest = max(claim.timeout for claim in chunk).total_seconds()
            yield _package(run_plain_functions, attempt, chunk, math.ceil(longest) + PLAIN_SLACK)


def lane_of(claim: Claim) -> Lane:
    """Return the lane of a claimed run; a task that is no longer registered fails as a plain function."""
    task = registry.get(claim.task)
    return task.lane if task else Lane.PLAIN


def from_line(package: PlainPackage) -> Package:
    """Return the package of plain functions that a worker takes from their line."""
    return _new_package(run_plain_functions, (package.attempt, package.execution_ids), package.timeout)


def new_probe(now: datetime) -> Package:
    """Return a probe: when it is called, the pusher, the queue and a worker work."""
    return _new_package(probe, (now.timestamp(),), START_LIMIT)


def new_watch_ping() -> Package:
    """Return a ping to the outside watch; a worker sends it if no other cluster has in this minute."""
    return _new_package(ping_outside_watch, (), START_LIMIT)


def _new_package(function: Callable[..., None], arguments: tuple[Any, ...], timeout: int) -> Package:
    """Return a package for a worker; after `timeout` seconds, django-q2 replaces the worker that runs it."""
    return {
        "name": function.__name__,
        "func": function,
        "args": arguments,
        "kwargs": {},
        "timeout": timeout,
    }


def _package(
    function: Callable[..., None], attempt: int, claims: list[Claim], timeout: int = START_LIMIT
) -> Package:
    return _new_package(function, (attempt, [claim.execution_id for claim in claims]), timeout)


def _chunks(claims: list[Claim], size: int) -> Iterator[list[Claim]]:
    return (claims[start : start + size] for start in range(0, len(claims), size))


@contextmanager
def executing(context: ClusterContext, worker: int = 0) -> Iterator[WorkerLoop]:
    """Let this process, number `worker`, run executions inside the block, and finish those in progress.

    The loop must be drained here: in a finalizer of multiprocessing, since Python 3.13, thread pools no longer accept
    work.
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
    loop.start_coroutines(loop.start(attempt, execution_ids))


def run_plain_functions(attempt: int, execution_ids: list[int]) -> None:
    """Run plain functions in sequence; this worker took them from the line with a permit."""
    loop = _this_loop()
    for started in loop.start_in_sequence(attempt, execution_ids):
        with project_session():
            outcome = run_plain(started, registry.get(started.task))
        loop.outcomes.add(outcome, in_sequence=True)


def run_commands(attempt: int, execution_ids: list[int]) -> None:
    """Start commands in the background while permits are free, and release the others."""
    loop = _this_loop()
    for number, execution_id in enumerate(execution_ids):
        permit = None if loop.is_stuck else loop.context.permits.take_command()
        if permit is None:
            _release(loop, execution_ids[number:])
            return
        started: list[Started] = []
        try:
            started = loop.start(attempt, [execution_id])
        finally:
            if not started:
                loop.context.permits.give_back(permit)
        if started:
            loop.start_command(started[0], permit)


def probe(sent_at: float) -> None:
    """Report that the claim loop, the queue and a worker are alive.

    It also opens a new database session before the old one expires, and replaces this worker if a coroutine blocks it
    forever.
    """
    loop = _this_loop()
    acknowledge_probe(loop.context, sent_at)
    if loop.is_stuck:
        logger.error("A coroutine goes on after its time limit and blocks its worker, which is replaced")
        loop.outcomes.write(WRITE_BEFORE_END)
        q2.replace_worker()
    if connections["default"].connection is None or time.monotonic() >= loop.renew_session_at:
        _prepare(loop)


def acknowledge_probe(context: ClusterContext, sent_at: float) -> None:
    """Record that the probe sent at this timestamp has arrived; during an outage, only in shared memory."""
    context.probe_returned()
    try:
        with context.turns.take():
            engine.probe_returned(context.cluster_id, datetime.fromtimestamp(sent_at, UTC))
    except Error:
        connections["default"].close()


def ping_outside_watch() -> None:
    """Ping the outside watch in the background, unless another worker has in this minute."""
    loop = _this_loop()
    try:
        with loop.context.turns.take():
            is_mine = engine.take_watch_turn(clock.now())
    except Error:
        # Without a ping, the outside watch reports the outage.
        connections["default"].close()
        return
    if is_mine:
        loop.spawn(ping_watch())


def _prepare(loop: WorkerLoop) -> None:
    """Open a new session and let the database plan a start, so that the next run does not wait for either."""
    # The next start reports any problem with the database.
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


async def ping_watch() -> None:
    """Send one ping, and record its result."""
    error = await _send()
    if error:
        logger.warning("The outside watch could not be pinged: %s", error)
    await asyncio.to_thread(_note, error)


async def _send() -> str:
    """Return why the ping did not arrive, or an empty text; the address is a secret and left out."""
    url = settings.CRONTY_HEARTBEAT_URL
    try:
        reply = await outbound.send("GET", url, trusted=True, timeout=TIMEOUT_SECONDS, max_bytes=MAX_BYTES)
    except outbound.OutboundError as error:
        return str(error)
    host = outbound.Target.parse(url).host
    if 300 <= reply.status < 400:
        return f"{host} answered {reply.status}: redirects are not followed; set the final address."
    return "" if reply.status < 300 else f"{host} answered {reply.status}."


def _note(error: str) -> None:
    try:
        engine.note_watch_answer(clock.now(), error)
    except Error as problem:
        logger.info("The answer of the outside watch could not be recorded (%s)", problem)
    finally:
        connections.close_all()
