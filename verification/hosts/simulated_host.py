"""One simulated host: its clocks, its cluster with the real broker and engine, and its tasks, all in simulated time."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from django.conf import settings
from django.db import Error, OperationalError, connection, connections

from schedules import clock, engine
from schedules.engine import Outcome, RunPruner, Started
from schedules.engine.upkeep import clock_rollback
from schedules.models import Execution
from schedules.worker import packages
from schedules.worker.claim_loop import ClaimLoop
from schedules.worker.context import Clock, ClusterContext
from schedules.worker.locks import Permits

# How far a host's clock may be wrong, and how much it gains or loses, in seconds and seconds per second.
WRONG_BY = 3600.0
DRIFT = 5e-5
# The shortest and longest round trip to the database; how it splits into there and back is random.
ROUND_TRIP = (0.0005, 0.08)
# Half of the longest round trip, and the drift between two readings of the database's clock.
CLOCK_ERROR = ROUND_TRIP[1] / 2 + 60 * DRIFT
FLUSH_AFTER, RETRY_AFTER, PRUNE_EVERY = 0.02, 0.5, 5.0

Action = Callable[[], None]
_current = threading.local()


def current() -> "SimulatedHost":
    """Return the host whose step this thread executes."""
    host: SimulatedHost = _current.host
    return host


class HostDied(BaseException):
    """The power of the host whose step this is has failed."""


class Call(NamedTuple):
    """One call of a task, recorded apart from the ledger."""

    job: str
    slot: datetime
    attempt: int
    host: str
    at: float


class SimulatedClock(Clock):
    """The broker's clock: its sleep only says when the claim loop goes on."""

    def __init__(self, host: "SimulatedHost") -> None:
        self._host = host

    def monotonic(self) -> float:
        return self._host.steady()

    def sleep(self, seconds: float) -> None:
        self._host.loop_after = seconds


class SimulatedHost:
    """A host of the fleet, which calls the real engine; `plan` asks the fleet for a step at a later time."""

    def __init__(
        self, name: str, seed: int, begin: float, plan: Callable[["SimulatedHost", float, Action], None]
    ) -> None:
        self.name = name
        self.dice = random.Random(f"{seed} {name}")
        self.seed = seed
        self.at = self._begin = begin
        self.drift = self.dice.uniform(-DRIFT, DRIFT)
        self.wrong_by = self.dice.uniform(-WRONG_BY, WRONG_BY)
        self._booted = self.dice.uniform(1e3, 1e7)
        self.database_clock = clock.DatabaseClock()
        self._plan = plan
        self.permits = Permits(1)
        self.calls: list[Call] = []
        self.is_on = False
        self.is_cut = self.is_busy = False
        # What happens right after the next claim, when most is at stake.
        self.on_claim: Action | None = None
        self.statements_to_live: int | None = None
        self.loop_after = 0.0
        self.boots = self._lost_queues = 0

    # Clocks.

    def steady(self) -> float:
        return self._booted + (self.at - self._begin) * (1 + self.drift)

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.at + self.wrong_by, UTC)

    def read_database_clock(self) -> None:
        """Read the database's clock over a network whose two ways differ."""
        self._refuse_if_cut()
        round_trip = self.dice.uniform(*ROUND_TRIP)
        there = round_trip * self.dice.random()
        sent = self.steady()
        self.database_clock.add(sent, self.at + there, sent + round_trip)

    # The life of its cluster.

    def boot(self) -> None:
        """Start a new cluster, as the leader does; try again later if the database cannot be reached."""
        self.boots += 1
        self.is_on = True
        self.statements_to_live, self.on_claim = None, None
        self._queue_is_free_at = 0.0
        self._in_progress: dict[int, Started] = {}
        self._outcomes: list[Outcome] = []
        self._is_flush_planned = False
        self.recovery = clock_rollback._Recovery()
        self.database_clock = clock.DatabaseClock()
        try:
            self.read_database_clock()
            self.cluster_id = engine.enlist(clock.now()).pk
        except Error:
            self._later(RETRY_AFTER, self.boot)
            return
        self.context = ClusterContext(self.cluster_id, self.permits, SimulatedClock(self))
        self.claim_loop = ClaimLoop(self.context)
        self._pruner = RunPruner(self.cluster_id)
        self._later(0, self._loop)
        self._later(settings.CRONTY_LEASE_SECONDS / 3, self._renew)
        self._later(self.dice.uniform(0, PRUNE_EVERY), self._prune)

    def lose_power(self) -> None:
        """Forget everything that is not in the database."""
        self.is_on = False
        self.boots += 1

    def restart_cluster(self) -> None:
        """Lose every process of the cluster except the leader, which hands back what they held."""
        self.boots += 1
        self._hand_back_and_boot()

    def stop_in_good_order(self) -> None:
        """Claim nothing more, finish what runs if that does not take long, and start again."""
        self.context.stop_within(settings.CRONTY_STOP_SECONDS)
        self._try(lambda: engine.hand_back(self.cluster_id, clock.now()))
        self._later(self.dice.uniform(0.5, 5), self.restart_cluster)

    def _hand_back_and_boot(self) -> None:
        def hand_back() -> None:
            engine.hand_back(self.cluster_id, clock.now(), also_running=True)
            engine.retire(self.cluster_id, clock.now(), "")

        self._try(hand_back)
        self.boot()

    # The steps of its processes.

    def _loop(self) -> None:
        self.loop_after = 0.0
        for package in self.claim_loop.next_packages():
            if package["func"] is packages.probe:
                self._queue(
                    lambda arguments=package["args"]: packages.acknowledge_probe(self.context, *arguments)
                )
                continue
            self._queue(lambda arguments=package["args"]: self._start(*arguments))
            if self.on_claim:
                strike, self.on_claim = self.on_claim, None
                self._later(0, strike)
        self._later(max(self.loop_after, 0.002), self._loop)

    def lose_claims(self) -> None:
        """Lose the packages that no worker has taken yet, and the claim loop, which the sentinel starts again."""
        self._lost_queues += 1
        self.claim_loop = ClaimLoop(self.context)

    def _queue(self, action: Action) -> None:
        """Let a worker take a package, in the order in which they were queued."""
        delay = self.dice.uniform(0.5, 5) if self.is_busy else self.dice.uniform(0.001, 0.02)
        self._queue_is_free_at = max(self._queue_is_free_at, self.at + delay)
        queue = self._lost_queues
        self._later(
            self._queue_is_free_at - self.at, lambda: action() if self._lost_queues == queue else None
        )

    def _start(self, attempt: int, execution_ids: list[int]) -> None:
        # If this fails, django-q2 drops the package, and the leases expire.
        self._try(
            lambda: self._started(engine.start_runs(self.cluster_id, attempt, execution_ids, clock.now()))
        )

    def _started(self, runs: list[Started]) -> None:
        for run in runs:
            self.calls.append(Call(run.job_name, run.scheduled_for, run.attempt, self.name, self.at))
            self._in_progress[run.execution_id] = run
            dice = random.Random(f"{self.seed} {run.job_name} {run.scheduled_for} {run.attempt}")
            length, fails = _length(dice), dice.random() < 0.1
            self._later(length, lambda run=run, fails=fails: self._finish(run, fails=fails))

    def _finish(self, run: Started, *, fails: bool) -> None:
        del self._in_progress[run.execution_id]
        now = clock.now()
        status, error = (Execution.Status.FAILED, "It failed.") if fails else (Execution.Status.SUCCEEDED, "")
        retry_at = engine.retry_at(run, now) if fails else None
        self._outcomes.append(
            Outcome(run.execution_id, run.attempt, run.job_id, status, now, error=error, retry_at=retry_at)
        )
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._later(FLUSH_AFTER, self._flush)

    def _flush(self) -> None:
        batch, self._outcomes, self._is_flush_planned = self._outcomes, [], False
        blocked = batch
        try:
            self._refuse_if_cut()
            blocked = engine.settle_runs(self.cluster_id, batch).blocked
        except Error:
            pass
        self._outcomes += blocked
        if self._outcomes:
            self._is_flush_planned = True
            self._later(RETRY_AFTER, self._flush)

    def _renew(self) -> None:
        held = {*self._in_progress, *(outcome.execution_id for outcome in self._outcomes)}
        is_done = not held or self._try(lambda: engine.renew(self.cluster_id, held, clock.now()))
        self._later(settings.CRONTY_LEASE_SECONDS / 3 if is_done else RETRY_AFTER, self._renew)

    def _prune(self) -> None:
        self._try(lambda: sum(self._pruner.prune(clock.now())))
        self._later(PRUNE_EVERY, self._prune)

    def _try(self, step: Callable[[], object]) -> bool:
        try:
            self._refuse_if_cut()
            step()
        except Error:
            return False
        return True

    def _refuse_if_cut(self) -> None:
        if self.is_cut:
            raise OperationalError("could not receive data from server: Connection timed out")

    def _later(self, seconds: float, action: Action) -> None:
        boots = self.boots
        self._plan(self, self.at + seconds, lambda: action() if self.boots == boots else None)

    def step(self, at: float, action: Action) -> None:
        """Do one step at this simulated time, with this host's clocks and its network."""
        self.at = at
        _current.host = self
        try:
            with connection.execute_wrapper(self._before_statement):
                action()
        except HostDied:
            self.lose_power()

    def _before_statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self._refuse_if_cut()
        if self.statements_to_live is not None:
            self.statements_to_live -= 1
            if self.statements_to_live < 0:
                self.statements_to_live = None
                raise HostDied
        return execute(sql, params, many, context)


def _length(dice: random.Random) -> float:
    """Return how long a task takes: mostly a moment, sometimes longer than a lease."""
    return dice.choices([dice.uniform(0.005, 0.3), dice.uniform(1, 5), dice.uniform(12, 25)], [80, 15, 5])[0]


class _OfCurrentHost:
    """Stands for one attribute of the host whose step the thread executes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(current(), self._name), name)


def _measure(over: object = None) -> None:
    # The simulation itself has connections, too.
    if host := getattr(_current, "host", None):
        host.read_database_clock()


@contextmanager
def simulated_clocks() -> Iterator[None]:
    """Let the engine read the clocks of the current host; keep the connections, which belong to the simulation."""
    steady = SimpleNamespace(monotonic=lambda: current().steady())
    wall = SimpleNamespace(now=lambda: current().wall())
    with ExitStack() as stack:
        for target, name, value in (
            (clock, "database", _OfCurrentHost("database_clock")),
            (clock, "steady", lambda: current().steady()),
            (clock, "timezone", wall),
            (clock, "measure", _measure),
            (clock_rollback, "_recovery", _OfCurrentHost("recovery")),
            (clock_rollback, "time", steady),
            (connections, "close_all", lambda: None),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        yield
