"""A fleet of simulated hosts that share a real database: they claim, die, are cut off, freeze and come back."""

import heapq
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, groupby
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connections

from schedules.models import Execution, Job, Profile
from verification.hosts.simulated_host import Action, Call, SimulatedHost, simulated_clocks

# Ten seconds before the first slot of the cron jobs.
BEGIN = datetime(2026, 3, 1, 11, 59, 50, tzinfo=UTC)
FAULTS = ("power", "statement", "reply", "restart", "cut", "freeze", "busy", "stop", "clock")
AFTER_A_CLAIM = ("power", "reply", "restart", "cut", "freeze")
# How long a fault lasts, in seconds.
LENGTH = (1.0, 30.0)
# How much time the fleet has after the last fault and the last slot.
SETTLE_WITHIN = 90.0
# In threads, the steps within such a time happen at once.
AT_ONCE = 0.05
SECOND = timedelta(seconds=1)


class Fault(NamedTuple):
    """What happened to a host, from when to when."""

    kind: str
    host: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Story:
    """What happened in one simulation, apart from what the ledger says."""

    seed: int
    hosts: int
    begin: float
    end: float
    slots_until: float
    faults: list[Fault]
    calls: list[Call]
    jobs: list[Job] = field(repr=False)


def simulate(
    seed: int,
    *,
    hosts: int,
    seconds: float,
    jobs: int,
    calm: float = 60,
    faults: Sequence[str] = FAULTS,
    threads: int = 1,
) -> Story:
    """Let a fleet work for some simulated seconds under faults, and then until everything is settled.

    A host works for `calm` seconds between two faults, on average. With one thread, the same seed gives the same story; with more, hosts claim at the same time.
    """
    random.seed(seed)
    with simulated_clocks():
        fleet = _Fleet(seed, hosts, calm, faults, threads)
        made = _make_jobs(random.Random(seed), jobs, BEGIN, BEGIN + seconds * SECOND)
        return fleet.run(seconds, made)


class _Fleet:
    def __init__(self, seed: int, hosts: int, calm: float, faults: Sequence[str], threads: int) -> None:
        self.begin = BEGIN.timestamp()
        self.seed = seed
        self._events: list[tuple[float, int, SimulatedHost, Action]] = []
        self._number = count()
        self._calm, self._kinds = calm, faults
        self._faults: list[Fault] = []
        self._threads = threads
        self.hosts = [SimulatedHost(f"host{number}", seed, self.begin, self._plan) for number in range(hosts)]

    def run(self, seconds: float, jobs: list[Job]) -> Story:
        faults_until = self.begin + seconds
        for host in self.hosts:
            self._plan(host, self.begin + host.dice.uniform(0, 1), host.boot)
            if self._kinds:
                self._plan_fault(host, self.begin, faults_until)
        try:
            self._go_on_until(faults_until)
            end = faults_until
            while end < faults_until + SETTLE_WITHIN and not _is_settled():
                end += 5
                self._go_on_until(end)
        finally:
            for host in self.hosts:
                host.permits.close()
        calls = sorted((call for host in self.hosts for call in host.calls), key=lambda call: call.at)
        return Story(self.seed, len(self.hosts), self.begin, end, faults_until, self._faults, calls, jobs)

    def _plan(self, host: SimulatedHost, at: float, action: Action) -> None:
        heapq.heappush(self._events, (at, next(self._number), host, action))

    def _go_on_until(self, end: float) -> None:
        if self._threads > 1:
            with ThreadPoolExecutor(self._threads) as pool:
                while self._events and self._events[0][0] < end:
                    self._step_at_once(pool)
                list(pool.map(lambda _: connections["default"].close(), range(self._threads)))
            return
        while self._events and self._events[0][0] < end:
            at, _, host, action = heapq.heappop(self._events)
            host.step(at, action)

    def _step_at_once(self, pool: ThreadPoolExecutor) -> None:
        """Let the hosts do their next steps at the same time, each its own in order."""
        until = self._events[0][0] + AT_ONCE
        steps = []
        while self._events and self._events[0][0] < until:
            steps.append(heapq.heappop(self._events))
        by_host = groupby(sorted(steps, key=lambda step: step[2].name), key=lambda step: step[2])

        def work(steps: list[tuple[float, int, SimulatedHost, Action]]) -> None:
            for at, _, host, action in steps:
                host.step(at, action)

        list(pool.map(work, [list(of_host) for _, of_host in by_host]))

    # Faults.

    def _plan_fault(self, host: SimulatedHost, after: float, until: float) -> None:
        at = after + host.dice.expovariate(1 / self._calm)
        ends = min(at + host.dice.uniform(*LENGTH), until)
        if at >= until:
            return
        kind = host.dice.choice(self._kinds)
        self._plan(host, at, lambda: self._inject(kind, host, ends))
        self._plan_fault(host, ends, until)

    def _inject(self, kind: str, host: SimulatedHost, until: float) -> None:
        """Let a fault happen now, or right after the next claim."""
        if not host.is_on:
            return
        if kind in AFTER_A_CLAIM and host.dice.random() < 0.7:
            host.on_claim = lambda: self._strike(kind, host, until)
        else:
            self._strike(kind, host, until)

    def _strike(self, kind: str, host: SimulatedHost, until: float) -> None:
        since, until = host.at, max(host.at, until)
        match kind:
            case "power":
                host.lose_power()
                self._plan(host, until, host.boot)
            case "statement":
                host.statements_to_live = host.dice.randrange(20)
                self._plan(host, until, lambda: None if host.is_on else host.boot())
            case "reply":
                host.lose_claims()
            case "restart":
                host.restart_cluster()
            case "cut" | "busy":
                setattr(host, f"is_{kind}", True)
                self._plan(host, until, lambda: setattr(host, f"is_{kind}", False))
            case "freeze":
                self._freeze(host, until)
            case "stop":
                host.stop_in_good_order()
                until = max(until, since + 5)
            case "clock":
                host.wrong_by += host.dice.uniform(-3600, 3600)
        self._faults.append(Fault(kind, host.name, since, until))

    def _freeze(self, host: SimulatedHost, until: float) -> None:
        """Put off everything that the host was about to do."""
        moved = [
            (max(at, until) if whose is host else at, number, whose, action)
            for at, number, whose, action in self._events
        ]
        heapq.heapify(moved)
        self._events[:] = moved


def _make_jobs(dice: random.Random, count: int, begin: datetime, end: datetime) -> list[Job]:
    """Create jobs of every trigger and policy whose last slot is before the end, and runs that become old meanwhile."""
    owner, _ = User.objects.get_or_create(username="fleet")
    Profile.objects.get_or_create(user=owner)
    jobs, length = [], (end - begin).total_seconds()
    for number in range(count):
        first = begin + dice.uniform(2, min(20, length)) * SECOND
        values: dict[str, object] = {
            "trigger_type": "interval",
            "every": dice.choice([1, 2, 5, 10, 30]) * SECOND,
        }
        match dice.randrange(4):
            case 0:
                first = begin + dice.uniform(2, length) * SECOND
                values = {"trigger_type": "once", "run_at": first}
            case 1:
                first = begin.replace(second=0) + timedelta(minutes=1)
                values = {"trigger_type": "cron", "cron": "* * * * *"}
            case _:
                values["anchor_at"] = first
        jobs.append(
            Job(
                owner=owner,
                public_id=f"fleet_{number}",
                name=f"job{number}",
                task="hosts.record",
                next_run_at=first,
                ends_at=None if values["trigger_type"] == "once" else end,
                overlap=dice.choice(["skip", "queue", "allow", "allow"]),
                catch_up=dice.choice(["once", "all"]),
                attempts=dice.choice([1, 1, 3]),
                backoff=SECOND,
                pause_after_failures=0,
                at_most_once=dice.random() < 0.2,
                created_at=begin,
                updated_at=begin,
                **values,
            )
        )
    Job.objects.bulk_create(jobs)
    oldest = begin - timedelta(days=settings.CRONTY_HISTORY_DAYS)
    Execution.objects.bulk_create(
        Execution.of(
            jobs[0], oldest + number * SECOND, status="succeeded", cause="manual", finished_at=oldest
        )
        for number in range(int(length))
    )
    return jobs


def _is_settled() -> bool:
    return not Job.objects.armed().exists() and not Execution.objects.live().exists()
