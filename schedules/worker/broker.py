"""django-q2's broker over the ledger: what is due comes straight from the tables."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from multiprocessing.sharedctypes import RawValue
from typing import Any

from django.conf import settings
from django.db import Error, connection, connections
from django.db.models import Count, Q
from django_q.brokers import Broker
from django_q.signing import SignedPackage

from schedules import clock, engine
from schedules.engine import Claim
from schedules.models import Execution
from schedules.tasks import registry
from schedules.worker import runner

logger = logging.getLogger(__name__)

POLL = 0.1
TIDY_EVERY = 3.0
PAUSE_AFTER_ERROR = 0.5
CHUNK = 100
# Plain functions run one after the other; only in a burst do a few of them travel together.
PLAIN_CHUNK = 5
PLAIN_BURST_PER_LANE = 20
# What one cluster holds at a time: enough to keep every worker busy, little to hand back.
HELD = 2000
BATCH = 1000
WORTH_CLAIMING = 200
LONG_AFTER = timedelta(seconds=0.3)
PROBE = "probe"

# The cluster's row; set by the process that leads the cluster, before it forks the others.
cluster_id: int = 0
# Whether the leader was told to stop; plain shared memory, which no process that was killed can hold locked.
is_stopping = RawValue("b", 0)


class LedgerBroker(Broker):
    """Claims for the pusher, listens to the monitor."""

    _tidied_at = 0.0
    _tidy_at = 0.0
    _sweep_at = 0.0
    _clock_offset: float | None = None
    _data_version = -1
    _seen_connection: object = None
    _wake_up_at: float = 0.0
    _must_look_ahead = True
    # No more than this is held, of which so many plain: counted anew only when that could matter.
    _held_at_most = HELD
    _plain_at_most = HELD
    _claimed = 0

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "Cronty's ledger"

    def enqueue(self, task: str) -> None:
        """Refuse django-q2's own tasks: the base class would drop them silently."""
        raise NotImplementedError(
            "Cronty's broker takes no django-q2 tasks (async_task, Schedule): register a function with"
            " schedules.tasks.task, and make a job of it with schedules.services.schedule."
        )

    def dequeue(self) -> list[tuple[str, str]] | None:
        """Return packages of claimed executions, or None after a short rest."""
        try:
            return self._next_packages()
        except Error:
            # The database went away; the pusher must outlive that, and say so once a turn.
            logger.warning("The database does not answer; trying again", exc_info=True)
        except Exception:
            logger.exception("Could not look for work; trying again")
        connections.close_all()
        time.sleep(PAUSE_AFTER_ERROR)  # noqa: TID251
        return None

    def acknowledge(self, task_id: str) -> None:
        """The monitor has seen a package come back; a probe has then been all the way round."""
        if not task_id.startswith(PROBE):
            return
        try:
            connection.close_if_unusable_or_obsolete()
            engine.probe_returned(cluster_id, datetime.fromisoformat(task_id.removeprefix(f"{PROBE} ")))
        except Error:
            connections.close_all()

    def queue_size(self) -> int:
        return Execution.objects.ready(clock.now()).count()

    def lock_size(self) -> int:
        return Execution.objects.held().count()

    def _next_packages(self) -> list[tuple[str, str]] | None:
        assert cluster_id, "start clusters with manage.py qcluster or manage.py up"
        if is_stopping.value:
            time.sleep(POLL)  # noqa: TID251
            return None
        connection.close_if_unusable_or_obsolete()
        packages: list[tuple[str, str]] = []
        if time.monotonic() > self._tidy_at:
            packages.append(self._tidy(clock.now()))
        elif not self._may_have_work():
            self._wait(POLL)
            return None
        room = self._room()
        if room:
            claims = engine.claim_runs(cluster_id, clock.now(), room, exclude_tasks=self._tasks_to_leave())
            self._count(claims)
            packages += _packages_of(claims)
            # Asked when these are on their way: nobody waits for the answer.
            self._must_look_ahead = len(claims) < room
        if not packages:
            # Work is there, but no place for it.
            time.sleep(POLL / 4)  # noqa: TID251
        return packages or None

    def _tidy(self, now: datetime) -> tuple[str, str]:
        """Show that we live, sweep up after those who do not, and send a probe round."""
        # Before the work: a sweep that fails must not keep claims from being made in between.
        self._tidy_at = time.monotonic() + TIDY_EVERY
        engine.beat(cluster_id, now, claimed=self._claimed)
        self._claimed = 0
        engine.renew_claims(cluster_id, now)
        # Also when there is no sweep: a clock may have been ahead for a few seconds only.
        engine.recover_from_clock_rollback(now)
        if self._may_sweep(now):
            engine.sweep(now)
        return _package(f"{PROBE} {now.isoformat()}", runner.probe, (), timeout=60)

    def _may_sweep(self, now: datetime) -> bool:
        """Tell whether a lease that ran out means anything: not when nobody could renew it, or the clock jumped."""
        tick, lease = time.monotonic(), settings.CRONTY_LEASE_SECONDS
        offset = now.timestamp() - tick
        has_jumped = self._clock_offset is not None and abs(offset - self._clock_offset) > lease / 3
        was_away = self._tidied_at > 0 and tick - self._tidied_at > max(2 * TIDY_EVERY, lease * 2 / 3)
        if has_jumped or was_away:
            self._sweep_at = tick + lease
        self._clock_offset, self._tidied_at = offset, tick
        return tick >= self._sweep_at

    def _count(self, claims: list[Claim]) -> None:
        self._claimed += len(claims)
        self._held_at_most += len(claims)
        self._plain_at_most += sum(not _is_coroutine(claim) for claim in claims)

    def _room(self) -> int:
        if self._held_at_most + BATCH > HELD:
            self._held_at_most = Execution.objects.held().filter(cluster_id=cluster_id).count()
        room = HELD - self._held_at_most
        return min(room, BATCH) if room >= WORTH_CLAIMING else 0

    def _tasks_to_leave(self) -> list[str]:
        """Leave plain functions alone while long ones take every place that is for them."""
        if self._plain_at_most < settings.CRONTY_WORKERS:
            return []
        tasks = registry.plain_names()
        is_long = Q(status=Execution.Status.RUNNING, started_at__lt=clock.now() - LONG_AFTER)
        plain = Execution.objects.held().filter(cluster_id=cluster_id, task__in=tasks)
        counts = plain.aggregate(held=Count("pk"), long=Count("pk", filter=is_long))
        self._plain_at_most = counts["held"]
        return tasks if counts["long"] >= settings.CRONTY_WORKERS else []

    def _look_ahead(self) -> None:
        self._must_look_ahead = False
        now = clock.now()
        at = engine.wake_up_at(now)
        if at and at <= now and (left := self._tasks_to_leave()):
            # What must wait for a place is no reason to stay awake.
            at = engine.wake_up_at(now, exclude_tasks=left)
        self._wake_up_at = at.timestamp() if at else float("inf")

    def _may_have_work(self) -> bool:
        """Tell, without a query where the database allows it, whether a claim could find anything."""
        if self._must_look_ahead:
            self._look_ahead()
        if clock.now().timestamp() >= self._wake_up_at:
            return True
        if connection.vendor != "sqlite":
            self._look_ahead()
            return clock.now().timestamp() >= self._wake_up_at
        connection.ensure_connection()
        version = connection.connection.execute("PRAGMA data_version").fetchone()[0]
        # Each connection counts for itself: a new one knows nothing of what the last had seen.
        is_changed = version != self._data_version or connection.connection is not self._seen_connection
        self._data_version, self._seen_connection = version, connection.connection
        if is_changed:
            self._look_ahead()
        return clock.now().timestamp() >= self._wake_up_at

    def _wait(self, longest: float) -> None:
        until_due = self._wake_up_at - clock.now().timestamp()
        time.sleep(min(longest, max(until_due, 0.001)))  # noqa: TID251


def _packages_of(claims: list[Claim]) -> Iterator[tuple[str, str]]:
    """Coroutines travel together and run at once; plain functions go alone, or by a few that take turns."""
    together: dict[int, list[Claim]] = defaultdict(list)
    alone: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        (together if _is_coroutine(claim) else alone)[claim.attempt].append(claim)
    for attempt, plain in alone.items():
        lanes = PLAIN_BURST_PER_LANE * settings.CRONTY_WORKERS
        for turn in _chunks(plain, min(PLAIN_CHUNK, 1 + len(plain) // lanes)):
            longest = max(claim.timeout for claim in turn).total_seconds()
            yield _runs(runner.run_in_turn, attempt, turn, timeout=max(1, math.ceil(longest)))
    for attempt, coroutines in together.items():
        for chunk in _chunks(coroutines, CHUNK):
            yield _runs(runner.run, attempt, chunk, timeout=60)


def _runs(function: Any, attempt: int, claims: list[Claim], *, timeout: int) -> tuple[str, str]:
    execution_ids = [claim.execution_id for claim in claims]
    return _package("", function, (cluster_id, attempt, execution_ids), timeout=timeout)


def _chunks(claims: list[Claim], size: int) -> Iterator[list[Claim]]:
    waiting = iter(claims)
    while chunk := list(islice(waiting, size)):
        yield chunk


def _is_coroutine(claim: Claim) -> bool:
    task = registry.get(claim.task)
    return task is not None and task.is_coroutine


def _package(ack_id: str, function: Any, arguments: tuple[Any, ...], *, timeout: int) -> tuple[str, str]:
    """What django-q2 carries: a function of ours and integers, nothing anybody else could write."""
    task = {
        "id": ack_id or "run",
        "name": function.__name__,
        "func": function,
        "args": arguments,
        "kwargs": {},
        "timeout": timeout,
        "started": clock.now(),
        "ack_failure": True,
    }
    return ack_id, SignedPackage.dumps(task)
