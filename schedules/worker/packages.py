"""Packages for django-q2: what a cluster has claimed, divided among its workers."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any

from django.conf import settings

from schedules.engine import Claim
from schedules.tasks import registry
from schedules.tasks.registry import Lane
from schedules.worker import q2, runner
from schedules.worker.plain_line import PLAIN_CHUNK, PlainPackage
from schedules.worker.q2 import Package, Task

CHUNK = 250
# The plain functions of a package run one after the other, so a package has several only in a burst.
PLAIN_BURST_PER_WORKER = 20
# How many seconds more than its longest run a package may take before django-q2 kills its worker with all its runs. Each
# run has a limit of its own, so this is for functions that ignore theirs, with time for a slow database.
PLAIN_SLACK = 30
# The limit of a package that only starts runs: long, because it may have to wait for the database.
START_LIMIT = 3600

_PROBE = "probe "


def pack(claims: list[Claim], now: datetime) -> Iterator[Package]:
    """Pack coroutines in chunks that run concurrently, and plain functions alone or in short sequences.

    Plain functions come last, because the others take hardly any time to start.
    """
    coroutines: dict[int, list[Claim]] = defaultdict(list)
    plain: dict[int, list[Claim]] = defaultdict(list)
    commands: dict[int, list[Claim]] = defaultdict(list)
    lanes = {Lane.COROUTINE: coroutines, Lane.PLAIN: plain, Lane.COMMAND: commands}
    for claim in claims:
        lanes[lane_of(claim)][claim.attempt].append(claim)
    for attempt, group in coroutines.items():
        for chunk in _chunks(group, CHUNK):
            yield _runs(runner.run_coroutines, attempt, chunk, now)
    for attempt, group in commands.items():
        yield _runs(runner.run_commands, attempt, group, now)
    burst = PLAIN_BURST_PER_WORKER * settings.CRONTY_WORKERS
    for attempt, group in plain.items():
        # A run that must not start twice is not started together with others: they may kill the worker before its turn.
        alone = [claim for claim in group if claim.at_most_once]
        others = [claim for claim in group if not claim.at_most_once]
        size = min(PLAIN_CHUNK, 1 + len(group) // burst)
        for chunk in chain(_chunks(others, size), _chunks(alone, 1)):
            longest = max(claim.timeout for claim in chunk).total_seconds()
            yield _runs(runner.run_plain_functions, attempt, chunk, now, math.ceil(longest) + PLAIN_SLACK)


def lane_of(claim: Claim) -> Lane:
    """Return how the claimed run is run; a task that is unknown by now fails as a plain function."""
    task = registry.get(claim.task)
    return task.lane if task else Lane.PLAIN


def plain_task(package: PlainPackage, now: datetime) -> Task:
    """Return the task for a worker that takes plain functions from their line."""
    arguments = (package.attempt, package.execution_ids)
    return q2.new_task("run", runner.run_plain_functions, arguments, now, package.timeout)


def probe(now: datetime) -> Package:
    """Pack a probe: its acknowledgement shows that the pusher, a worker and the monitor work."""
    return _package(f"{_PROBE}{now.isoformat()}", runner.probe, (), now)


def probe_sent_at(ack_id: str) -> datetime | None:
    """Return when the acknowledged probe was packed, or None for a package of runs."""
    if not ack_id.startswith(_PROBE):
        return None
    return datetime.fromisoformat(ack_id.removeprefix(_PROBE))


def _runs(
    function: Callable[..., None],
    attempt: int,
    claims: list[Claim],
    now: datetime,
    timeout: int = START_LIMIT,
) -> Package:
    return _package("", function, (attempt, [claim.execution_id for claim in claims]), now, timeout)


def _package(
    ack_id: str,
    function: Callable[..., None],
    arguments: tuple[Any, ...],
    now: datetime,
    timeout: int = START_LIMIT,
) -> Package:
    """Pack one of our functions and integers for django-q2, and nothing that comes from outside."""
    return q2.sign(ack_id, q2.new_task(ack_id or "run", function, arguments, now, timeout))


def _chunks(claims: list[Claim], size: int) -> Iterator[list[Claim]]:
    waiting = iter(claims)
    while chunk := list(islice(waiting, size)):
        yield chunk
