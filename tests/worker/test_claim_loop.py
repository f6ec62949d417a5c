"""The claim loop: what it claims, when, and what it does in between."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import Error, OperationalError, connection, connections

from schedules import clock, engine, services
from schedules.engine.interruptions import BUSY, DATABASE, NO_CLUSTER
from schedules.engine.upkeep import clock_rollback
from schedules.models import Cluster, Event, Execution, Job
from schedules.result import Ok
from schedules.services import Actor
from schedules.when.unplanned import UNKNOWN_START
from schedules.worker import capacity, locks
from schedules.worker import context as context_module
from schedules.worker import packages as packages_module
from schedules.worker.claim_loop import (
    COUNT_BEFORE,
    HEAD_START,
    HEAD_START_PER_JOB,
    PAUSE_AFTER_ERROR,
    POLL,
    QUIET_AFTER,
    ClaimLoop,
)
from schedules.worker.context import ClusterContext, PlainPackage
from schedules.worker.locks import Permits
from schedules.worker.q2 import Package
from schedules.worker.upkeep import MAX_INTERRUPTIONS, UPKEEP_EVERY, Heartbeat
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, UserFactory
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class FakeClock:
    """A clock that moves only when a test advances it; `sleep` records the call and returns at once."""

    def __init__(self, wall: Any) -> None:
        self._wall = wall
        self._monotonic = 1000.0
        self.slept: list[float] = []
        self.measured = 0
        self.is_set = False
        self.on_sleep: Callable[[], object] = lambda: None

    def now(self) -> datetime:
        return clock.now()

    def measure(self) -> None:
        self.measured += 1
        self.is_set = False

    def is_host_set(self) -> bool:
        return self.is_set

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.on_sleep()

    def advance(self, seconds: float, *, wall_seconds: float | None = None) -> None:
        """Let time pass; the wall clock may jump by a different amount."""
        self._monotonic += seconds
        self._wall.shift(timedelta(seconds=seconds if wall_seconds is None else wall_seconds))


@pytest.fixture
def fake_clock(time_machine, monkeypatch) -> FakeClock:
    time_machine.move_to(NOW, tick=False)
    # The connection belongs to the test: the loop must not close it after a database error.
    monkeypatch.setattr(connections, "close_all", lambda: None)
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)
    return FakeClock(time_machine)


@pytest.fixture
def cluster(fake_clock: FakeClock) -> Cluster:
    return ClusterFactory()


@pytest.fixture
def context(cluster: Cluster, fake_clock: FakeClock) -> Iterator[ClusterContext]:
    made = ClusterContext(cluster.pk, Permits(1), fake_clock)
    yield made
    made.close()


@pytest.fixture
def claim_loop(context: ClusterContext) -> ClaimLoop:
    return ClaimLoop(context)


def runs_of(packages: list[Package]) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the function and arguments of each package except the probe."""
    return [(item["func"], item["args"]) for item in packages if item["func"] is not packages_module.probe]


def due(count: int = 1, **fields: Any) -> list[Job]:
    owner = UserFactory()
    values = {"owner": owner, "next_run_at": NOW, "cron": "0 * * * *"} | fields
    return [JobFactory(**values) for _ in range(count)]


# Packages


def test_first_call_returns_a_probe_and_the_due_runs(claim_loop, cluster):
    due(task="tests.aping")

    packages = claim_loop.next_packages()

    (row,) = Execution.objects.all()
    probe, _ = packages
    assert (probe["func"], probe["args"]) == (packages_module.probe, (NOW.timestamp(),))
    assert runs_of(packages) == [(packages_module.run_coroutines, (0, [row.pk]))]


def test_packages_contain_only_our_functions_and_numbers(claim_loop):
    due(3, task="tests.aping", name="'; DROP TABLE", kwargs={"fail": True})
    due(1, task="tests.ping", args=[1, 2, 3])

    packages = claim_loop.next_packages()

    functions = [packages_module.run_coroutines, packages_module.run_plain_functions, packages_module.probe]
    assert Counter(item["func"] for item in packages) == Counter(functions)
    for item in packages:
        assert item["kwargs"] == {}
        parts = [part for value in item["args"] for part in (value if isinstance(value, list) else [value])]
        assert {type(part) for part in parts} == ({float} if item["func"] is packages_module.probe else {int})
        assert "DROP" not in str(item)


def test_chunk_fits_within_the_claim_limits():
    assert packages_module.CHUNK <= capacity.MIN_CLAIM <= capacity.MAX_HELD


# Waiting


def test_idle_claim_loop_sleeps_without_claiming(claim_loop, fake_clock, django_assert_max_num_queries):
    JobFactory(next_run_at=NOW + HOUR)
    assert runs_of(claim_loop.next_packages()) == []
    claim_loop.next_packages()
    fake_clock.slept.clear()

    with django_assert_max_num_queries(0 if connection.vendor == "sqlite" else 2):
        assert claim_loop.next_packages() == []

    assert fake_clock.slept == [POLL]


def test_claim_loop_wakes_up_for_the_next_job(claim_loop, fake_clock):
    JobFactory(next_run_at=NOW + timedelta(seconds=0.03))
    claim_loop.next_packages()
    fake_clock.slept.clear()

    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [pytest.approx(0.03 - HEAD_START - HEAD_START_PER_JOB, abs=1e-6)]
    fake_clock.advance(0.03)
    assert len(runs_of(claim_loop.next_packages())) == 1


# The head start of claims


def test_claim_begins_before_its_slot_and_is_committed_at_the_slot(claim_loop, fake_clock):
    at = NOW + timedelta(seconds=0.1)
    job = due(task="tests.aping", next_run_at=at)[0]
    claim_loop.next_packages()
    fake_clock.advance(0.098)
    in_the_claim: list[int] = []
    fake_clock.on_sleep = lambda: in_the_claim.append(Execution.objects.count())
    fake_clock.slept.clear()

    assert len(runs_of(claim_loop.next_packages())) == 1

    assert fake_clock.slept == [pytest.approx(0.002, abs=1e-6)]
    assert in_the_claim == [1]
    run = Execution.objects.get()
    assert (run.scheduled_for, run.claimed_at) == (at, at)
    job.refresh_from_db()
    assert job.next_run_at == NOW + HOUR


def test_claim_of_many_jobs_begins_earlier(claim_loop, fake_clock):
    due(20, task="tests.aping", next_run_at=NOW + timedelta(seconds=0.05))
    claim_loop.next_packages()
    fake_clock.slept.clear()
    head_start = HEAD_START + 20 * HEAD_START_PER_JOB

    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [pytest.approx(0.05 - head_start, abs=1e-6)]

    fake_clock.advance(0.05 - head_start + 1e-6)
    fake_clock.slept.clear()
    assert len(runs_of(claim_loop.next_packages())) == 1
    assert fake_clock.slept == [pytest.approx(head_start, abs=1e-5)]
    assert Execution.objects.count() == 20


def test_claim_before_its_slot_takes_more_than_a_later_one(claim_loop, fake_clock, monkeypatch):
    """No worker waits for it, so there is no need for a small first batch."""
    monkeypatch.setattr(capacity, "BATCH", 2)
    due(5, task="tests.aping", next_run_at=NOW + timedelta(seconds=0.05))
    claim_loop.next_packages()
    claim_loop.next_packages()
    fake_clock.advance(0.049)
    claim_loop.next_packages()
    assert Execution.objects.count() == 5

    due(5, task="tests.aping", next_run_at=NOW + timedelta(seconds=0.05))
    fake_clock.advance(UPKEEP_EVERY + 1)
    claim_loop.next_packages()
    assert Execution.objects.count() == 7


def test_jobs_are_counted_only_shortly_before_their_slot(claim_loop, fake_clock, monkeypatch):
    counted: list[datetime] = []
    monkeypatch.setattr(engine, "count_due", lambda at, most: counted.append(at) or 1)
    at = NOW + timedelta(seconds=COUNT_BEFORE + 0.1)
    due(task="tests.aping", next_run_at=at)
    claim_loop.next_packages()
    claim_loop.next_packages()
    assert not counted

    fake_clock.advance(0.2)
    claim_loop.next_packages()
    assert counted == [at]

    # Too late for a longer head start.
    fake_clock.advance(COUNT_BEFORE - 0.11)
    claim_loop.next_packages()
    assert counted == [at]


def test_jobs_are_not_counted_while_workers_start_what_was_claimed(claim_loop, fake_clock, monkeypatch):
    """The count took a processor for a millisecond, and a run began so much later."""
    counted: list[datetime] = []
    monkeypatch.setattr(engine, "count_due", lambda at, most: counted.append(at) or 1)
    at = NOW + timedelta(seconds=COUNT_BEFORE - 0.1)
    due(task="tests.aping", next_run_at=NOW)
    due(task="tests.aping", next_run_at=at)
    assert len(runs_of(claim_loop.next_packages())) == 1

    assert claim_loop.next_packages() == []
    assert not counted
    assert fake_clock.slept[-1] == pytest.approx(QUIET_AFTER)

    fake_clock.advance(QUIET_AFTER)
    claim_loop.next_packages()
    assert counted == [at]


def test_claim_does_not_begin_early_while_workers_start_what_was_claimed(claim_loop, fake_clock):
    due(task="tests.aping", next_run_at=NOW)
    due(task="tests.aping", next_run_at=NOW + timedelta(seconds=0.01))
    assert len(runs_of(claim_loop.next_packages())) == 1
    fake_clock.advance(0.006)
    fake_clock.slept.clear()

    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [pytest.approx(0.004, abs=1e-6)]
    fake_clock.advance(0.004)
    assert len(runs_of(claim_loop.next_packages())) == 1


def test_claim_that_begins_early_calls_no_slot_an_overlap_before_the_slot(claim_loop, cluster, fake_clock):
    at = NOW + timedelta(seconds=0.1)
    job = due(task="tests.aping", next_run_at=at, overlap="skip")[0]
    claim_loop.next_packages()
    running = ExecutionFactory(job=job, status="running", cluster=cluster, lease_until=NOW + HOUR)
    fake_clock.advance(0.098)

    assert claim_loop.next_packages() == []
    assert Execution.objects.get() == running

    Execution.objects.update(status="succeeded", finished_at=clock.now(), lease_until=None)
    fake_clock.advance(0.002)
    assert len(runs_of(claim_loop.next_packages())) == 1


CHANGES = {
    "pause": lambda actor, job: services.pause(actor, job.public_id),
    "edit": lambda actor, job: services.edit(actor, job.public_id, cron="30 * * * *"),
    "delete": lambda actor, job: services.delete(actor, job.public_id),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_just_before_an_early_claim_wins(claim_loop, fake_clock, change):
    """The loop has seen the slot, but the claim reads the job again."""
    job = due(task="tests.aping", next_run_at=NOW + timedelta(seconds=0.1))[0]
    claim_loop.next_packages()
    fake_clock.advance(0.098)

    assert isinstance(CHANGES[change](Actor(job.owner, Event.Door.WEB), job), Ok)

    assert not runs_of(claim_loop.next_packages())
    assert not Execution.objects.live().exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
def test_change_during_an_early_claim_is_committed_after_the_slot(claim_loop, fake_clock, change):
    """Whoever changes a job that is being claimed waits for the slot, and the run is one that was due before."""
    at = NOW + timedelta(seconds=0.1)
    job = due(task="tests.aping", next_run_at=at)[0]
    actor = Actor(job.owner, Event.Door.WEB)
    claim_loop.next_packages()
    fake_clock.advance(0.098)
    order: list[str] = []

    def change_it() -> None:
        assert isinstance(CHANGES[change](actor, job), Ok)
        order.append("changed")
        connections["default"].close()

    with ThreadPoolExecutor(1) as pool:
        changes: list[Future[None]] = []

        def change_in_the_claim() -> None:
            changes.append(pool.submit(change_it))
            with pytest.raises(TimeoutError):
                changes[0].result(0.5)
            order.append("claimed")

        fake_clock.on_sleep = change_in_the_claim
        assert len(runs_of(claim_loop.next_packages())) == 1
        changes[0].result(PATIENCE)

    assert order == ["claimed", "changed"]
    assert Execution.objects.get().scheduled_for == at


def test_claim_loop_sleeps_while_the_ledger_is_empty(claim_loop, fake_clock):
    claim_loop.next_packages()
    fake_clock.slept.clear()

    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [POLL]


@pytest.mark.django_db(transaction=True)
def test_job_created_by_another_connection_is_claimed_by_the_next_call(claim_loop, fake_clock):
    claim_loop.next_packages()
    assert claim_loop.next_packages() == []

    def make() -> None:
        due()
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(make).result()

    assert len(runs_of(claim_loop.next_packages())) == 1


def test_claim_loop_looks_for_work_again_on_a_new_connection(claim_loop, fake_clock):
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has a data version number")
    claim_loop.next_packages()
    claim_loop.next_packages()
    due()
    # Our own writes do not change the data version; a new connection starts without one.
    assert claim_loop.next_packages() == []

    claim_loop._changes._connection = object()

    assert len(runs_of(claim_loop.next_packages())) == 1


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database")
def test_claim_waits_for_workers_that_write_but_not_for_ever(claim_loop, context, monkeypatch):
    monkeypatch.setattr(locks, "WAIT_FOR_TURN", 0.05)
    due(task="tests.aping")

    begin = time.perf_counter()
    with context.turns.take():
        packages = claim_loop.next_packages()

    assert time.perf_counter() - begin >= 0.05
    assert len(runs_of(packages)) == 1


def test_slot_is_not_skipped_while_a_worker_has_the_end_of_the_run_before_to_write(
    claim_loop, cluster, context, fake_clock
):
    (job,) = due(task="tests.aping")
    ExecutionFactory(job=job, status="running", cluster=cluster, scheduled_for=NOW - HOUR)
    context.report_unwritten(0, NOW - SECOND)

    assert runs_of(claim_loop.next_packages()) == []
    assert Execution.objects.count() == 1

    Execution.objects.update(status="succeeded", finished_at=NOW - SECOND)
    context.report_unwritten(0, None)
    assert len(runs_of(claim_loop.next_packages())) == 1


@pytest.mark.parametrize("has_ended", [True, False])
def test_slot_waits_a_moment_for_the_outcome_of_another_cluster(claim_loop, fake_clock, has_ended):
    other, at = ClusterFactory(last_seen_at=NOW), NOW + SECOND
    job = due(task="tests.aping", next_run_at=at, overlap="skip")[0]
    running = ExecutionFactory(job=job, status="running", cluster=other, lease_until=NOW + HOUR)
    claim_loop.next_packages()
    fake_clock.advance(1)

    assert runs_of(claim_loop.next_packages()) == []
    assert Execution.objects.get() == running
    if has_ended:
        Execution.objects.update(status="succeeded", finished_at=NOW, lease_until=None)
    fake_clock.advance(0.3)
    started = runs_of(claim_loop.next_packages())

    assert len(started) == has_ended
    expected = "claimed" if has_ended else "skipped"
    assert Execution.objects.exclude(pk=running.pk).get().status == expected


def test_work_beyond_one_batch_is_claimed_by_the_next_calls(claim_loop, monkeypatch):
    monkeypatch.setattr(capacity, "BATCH", 3)
    due(7, task="tests.aping")

    counts = [sum(len(args[1]) for _, args in runs_of(claim_loop.next_packages())) for _ in range(3)]

    assert counts == [3, 3, 1]


def test_claim_that_leaves_work_behind_reports_a_burst(claim_loop, context, monkeypatch):
    monkeypatch.setattr(capacity, "BATCH", 3)
    monkeypatch.setattr(context_module, "BURST_SECONDS", 1000)

    due(2, task="tests.aping")
    claim_loop.next_packages()
    assert not context.is_burst

    due(4, task="tests.aping")
    claim_loop.next_packages()
    assert context.is_burst
    monkeypatch.setattr(context_module, "BURST_SECONDS", 0)
    assert not context.is_burst


def test_clusters_that_are_alive_share_a_burst(claim_loop, monkeypatch):
    monkeypatch.setattr(capacity, "BATCH", 8)
    monkeypatch.setattr(packages_module, "CHUNK", 2)
    ClusterFactory()
    ClusterFactory(stopped_at=NOW)
    due(9, task="tests.aping")

    counts = [sum(len(args[1]) for _, args in runs_of(claim_loop.next_packages())) for _ in range(3)]

    assert counts == [4, 4, 1]


def test_share_of_many_clusters_is_at_least_one_package(claim_loop, monkeypatch):
    monkeypatch.setattr(capacity, "BATCH", 8)
    monkeypatch.setattr(packages_module, "CHUNK", 2)
    ClusterFactory.create_batch(9)
    due(5, task="tests.aping")

    counts = [sum(len(args[1]) for _, args in runs_of(claim_loop.next_packages())) for _ in range(3)]

    assert counts == [2, 2, 1]


# Capacity


def test_full_cluster_claims_nothing_and_sleeps(claim_loop, cluster, fake_clock, monkeypatch):
    monkeypatch.setattr(capacity, "MAX_HELD", 5)
    monkeypatch.setattr(capacity, "MIN_CLAIM", 2)
    job = JobFactory(next_run_at=NOW + HOUR)
    for _ in range(4):
        ExecutionFactory(job=job, status="running", cluster=cluster, cause="manual", lease_until=NOW + HOUR)
    due()
    assert runs_of(claim_loop.next_packages()) == []
    fake_clock.slept.clear()

    assert claim_loop.next_packages() == []

    assert fake_clock.slept == [POLL / 4]
    Execution.objects.filter(pk=Execution.objects.first().pk).update(status="succeeded")
    assert len(runs_of(claim_loop.next_packages())) == 1


def test_claims_of_another_cluster_do_not_use_capacity(claim_loop, monkeypatch):
    monkeypatch.setattr(capacity, "MAX_HELD", 2)
    monkeypatch.setattr(capacity, "MIN_CLAIM", 2)
    ExecutionFactory(status="running", cluster=ClusterFactory(), lease_until=NOW + HOUR)
    due()

    assert len(runs_of(claim_loop.next_packages())) == 1


def test_only_coroutines_are_claimed_while_long_plain_functions_use_all_workers(
    claim_loop, cluster, fake_clock, settings
):
    settings.CRONTY_WORKERS = 2
    for _ in range(2):
        ExecutionFactory(
            job=JobFactory(next_run_at=NOW + HOUR),
            status="running",
            cluster=cluster,
            started_at=NOW - SECOND,
            lease_until=NOW + HOUR,
        )
    due(task="tests.ping")
    due(task="tests.aping")

    assert [function for function, _ in runs_of(claim_loop.next_packages())] == [
        packages_module.run_coroutines
    ]
    fake_clock.slept.clear()
    fake_clock.advance(QUIET_AFTER)
    # A run that must wait for a free worker does not keep the loop awake.
    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [POLL]
    Execution.objects.filter(status="running").update(status="succeeded")
    fake_clock.advance(UPKEEP_EVERY + 1)
    assert [function for function, _ in runs_of(claim_loop.next_packages())] == [
        packages_module.run_plain_functions
    ]


def test_plain_functions_that_wait_behind_long_ones_are_released_for_other_clusters(
    claim_loop, cluster, context, monkeypatch, settings
):
    monkeypatch.setattr(capacity, "WAIT_FOR_PERMIT", 0)
    settings.CRONTY_WORKERS = 1
    waiting = [ExecutionFactory(status="claimed", task="tests.ping", cluster=cluster) for _ in range(2)]
    other = ExecutionFactory(status="claimed", task="tests.aping", cluster=cluster)
    context.plain_line.put(PlainPackage(0, [row.pk for row in waiting], 5))

    claim_loop.next_packages()
    # Nothing is long yet, so they will soon have a permit.
    assert len(context.plain_line) == 1
    ExecutionFactory(status="running", task="tests.ping", cluster=cluster, started_at=NOW - SECOND)
    claim_loop.next_packages()

    assert len(context.plain_line) == 0
    statuses = [Execution.objects.get(pk=row.pk).status for row in (*waiting, other)]
    assert statuses == ["queued", "queued", "claimed"]


def test_many_plain_functions_leave_room_for_coroutines(claim_loop, monkeypatch):
    monkeypatch.setattr(capacity, "MAX_PLAIN_HELD", 3)
    due(5, task="tests.ping", next_run_at=NOW - SECOND)
    assert {function for function, _ in runs_of(claim_loop.next_packages())} == {
        packages_module.run_plain_functions
    }
    due(5, task="tests.ping", next_run_at=NOW - SECOND)
    due(task="tests.aping")

    assert {function for function, _ in runs_of(claim_loop.next_packages())} == {
        packages_module.run_coroutines
    }


def test_short_plain_functions_do_not_count_as_long(claim_loop, cluster, settings):
    settings.CRONTY_WORKERS = 1
    ExecutionFactory(
        job=JobFactory(next_run_at=NOW + HOUR),
        status="running",
        cluster=cluster,
        started_at=NOW,
        lease_until=NOW + HOUR,
    )
    due(task="tests.ping")

    assert len(runs_of(claim_loop.next_packages())) == 1


@pytest.mark.parametrize("task", ["tests.ping", "tests.aping"])
def test_idle_cluster_claims_without_count_queries(claim_loop, settings, django_assert_max_num_queries, task):
    settings.CRONTY_WORKERS = 2
    claim_loop.next_packages()
    claim_loop.next_packages()
    due(task=task)
    claim_loop._next_slot.expect(NOW)

    # Queued runs, due jobs, live runs, the insert, the next slot, and the savepoint inside the test's transaction.
    with django_assert_max_num_queries(7) as queries:
        assert len(runs_of(claim_loop.next_packages())) == 1
    assert not [query for query in queries.captured_queries if "COUNT(" in query["sql"]]


def test_claimed_count_is_written_with_the_next_heartbeat(claim_loop, cluster, fake_clock):
    due(3)
    claim_loop.next_packages()
    fake_clock.advance(UPKEEP_EVERY + 1)
    claim_loop.next_packages()

    cluster.refresh_from_db()
    assert cluster.claimed_count == 3


def test_stopping_cluster_claims_nothing(claim_loop, context, fake_clock):
    due(task="tests.aping")
    context.stop_within(20)

    assert claim_loop.next_packages() == []
    assert fake_clock.slept == [POLL]
    assert not Execution.objects.exists()


# Heartbeats and sweeps


def test_claim_loop_sends_heartbeat_and_probe_every_few_seconds(claim_loop, cluster, fake_clock):
    assert len(claim_loop.next_packages()) == 1
    assert claim_loop.next_packages() == []
    fake_clock.advance(UPKEEP_EVERY + 0.1)

    (probe,) = claim_loop.next_packages()

    cluster.refresh_from_db()
    assert cluster.last_seen_at == NOW + timedelta(seconds=UPKEEP_EVERY + 0.1)
    assert probe["args"] == (cluster.last_seen_at.timestamp(),)


def pings_of(found: list[Package]) -> int:
    return sum(item["func"] is packages_module.ping_outside_watch for item in found)


def test_outside_watch_is_pinged_once_a_minute_while_claims_work(claim_loop, fake_clock, settings):
    settings.CRONTY_HEARTBEAT_URL = "https://watch.example/5ec2e7"
    pings = []
    for _ in range(40):
        pings.append(pings_of(claim_loop.next_packages()))
        fake_clock.advance(UPKEEP_EVERY + 0.1)

    assert sum(pings) == 3, "two minutes and four seconds from the beginning of a minute"
    assert pings[0] == 1


def test_outside_watch_is_not_pinged_unless_it_is_set(claim_loop):
    assert pings_of(claim_loop.next_packages()) == 0


@pytest.mark.parametrize("manner", ["claims fail", "workers are blocked"])
def test_cluster_that_cannot_claim_does_not_ping(
    claim_loop, context, fake_clock, settings, monkeypatch, manner
):
    settings.CRONTY_HEARTBEAT_URL = "https://watch.example/5ec2e7"

    def fail(*_: object, **more: object) -> None:
        raise ValueError("no claim works")

    if manner == "claims fail":
        monkeypatch.setattr(engine, "claim_runs", fail)
    else:
        context.report_blocked()

    found = claim_loop.next_packages()

    assert [item["func"] for item in found] == [packages_module.probe]


def test_job_that_is_due_during_the_tidying_comes_first_but_not_for_ever(
    claim_loop, cluster, fake_clock, monkeypatch
):
    beat = engine.beat

    def beat_slowly(*arguments: Any, **more: Any) -> None:
        fake_clock.advance(0.02)
        beat(*arguments, **more)

    monkeypatch.setattr(engine, "beat", beat_slowly)
    claim_loop.next_packages()
    due(
        task="tests.aping", next_run_at=clock.now() + timedelta(seconds=UPKEEP_EVERY + 0.01), cron="* * * * *"
    )
    claim_loop.next_packages()
    fake_clock.advance(UPKEEP_EVERY + 0.002)

    assert claim_loop.next_packages() == [], "it tidied just before the job was due"
    fake_clock.advance(0.01)
    (claimed,) = claim_loop.next_packages()
    assert claimed["func"] is packages_module.run_coroutines
    assert claim_loop.next_packages() == [], "it tidied while a worker started the job"
    fake_clock.advance(QUIET_AFTER)
    (tidied,) = claim_loop.next_packages()
    assert tidied["func"] is packages_module.probe

    due(task="tests.aping", next_run_at=clock.now() + timedelta(seconds=1.6 * UPKEEP_EVERY), cron="* * * * *")
    claim_loop.next_packages()
    fake_clock.advance(1.6 * UPKEEP_EVERY)
    assert [item["func"] for item in claim_loop.next_packages()] == [
        packages_module.probe,
        packages_module.run_coroutines,
    ]


def test_steady_load_is_tidied_between_two_claims(claim_loop, cluster, fake_clock, monkeypatch):
    """Every look would fall right after a claim, or right before the next one."""
    beat = engine.beat

    def beat_slowly(*arguments: Any, **more: Any) -> None:
        fake_clock.advance(0.004)
        beat(*arguments, **more)

    monkeypatch.setattr(engine, "beat", beat_slowly)
    fake_clock.on_sleep = lambda: fake_clock.advance(fake_clock.slept[-1])
    claim_loop.next_packages()
    begin = clock.now()
    jobs = int(UPKEEP_EVERY / 0.05) + 8
    for number in range(jobs):
        due(task="tests.aping", next_run_at=begin + timedelta(seconds=0.05 * (1 + number)))

    claimed_at, tidied_at = 0.0, 0.0
    while not tidied_at:
        functions = [item["func"] for item in claim_loop.next_packages()]
        if packages_module.run_coroutines in functions:
            claimed_at = fake_clock.monotonic()
        if packages_module.probe in functions:
            tidied_at = fake_clock.monotonic()

    assert QUIET_AFTER <= tidied_at - claimed_at < 0.05
    assert tidied_at - 1000 < UPKEEP_EVERY + 0.1


def test_database_clock_is_read_with_every_heartbeat_and_not_with_claims(claim_loop, fake_clock):
    claim_loop.next_packages()
    due()
    assert claim_loop.next_packages()

    assert fake_clock.measured == 1
    fake_clock.advance(UPKEEP_EVERY + 0.1)
    claim_loop.next_packages()
    assert fake_clock.measured == 2


def test_database_clock_is_read_before_the_next_claim_when_the_hosts_clock_was_set(
    claim_loop, fake_clock, monkeypatch
):
    claim_loop.next_packages()
    due()
    order: list[str] = []
    claim = engine.claim_runs
    monkeypatch.setattr(
        engine, "claim_runs", lambda *args, **more: order.append("claim") or claim(*args, **more)
    )
    monkeypatch.setattr(fake_clock, "measure", lambda: order.append("measure"))

    fake_clock.is_set = True
    claim_loop.next_packages()

    assert order == ["measure", "claim"]


def test_short_lease_is_renewed_before_it_ends(claim_loop, cluster, fake_clock, settings):
    settings.CRONTY_LEASE_SECONDS = 3
    claim_loop.next_packages()
    row = ExecutionFactory(
        job=JobFactory(next_run_at=NOW + HOUR), status="claimed", cluster=cluster, claimed_at=clock.now(),
        lease_until=NOW + 3 * SECOND,
    )  # fmt: skip
    Cluster.objects.update(probe_returned_at=NOW)
    fake_clock.advance(1.1)

    claim_loop.next_packages()

    row.refresh_from_db()
    assert row.lease_until > NOW + 3 * SECOND


def abandoned(cluster: Cluster) -> Execution:
    job = JobFactory(next_run_at=NOW + HOUR)
    return ExecutionFactory(
        job=job, status="running", attempt=1, cluster=cluster, lease_until=NOW - SECOND, scheduled_for=NOW
    )


def test_cluster_that_waited_for_the_database_gives_others_time_to_renew_their_leases(
    cluster, fake_clock, settings
):
    lease = settings.CRONTY_LEASE_SECONDS
    context = ClusterContext(cluster.pk, Permits(2), fake_clock, sweep_at=fake_clock.monotonic() + lease)
    claim_loop, row = ClaimLoop(context), abandoned(ClusterFactory())

    claim_loop.next_packages()
    row.refresh_from_db()
    assert row.status == "running"
    for _ in range(math.ceil(lease / 2) + 1):
        fake_clock.advance(2.1)
        claim_loop.next_packages()

    row.refresh_from_db()
    assert row.status in ("queued", "claimed")
    context.close()


def test_first_call_sweeps_expired_leases(claim_loop):
    row = abandoned(ClusterFactory())

    claim_loop.next_packages()

    row.refresh_from_db()
    assert row.status in ("queued", "claimed")


@pytest.mark.parametrize(
    ("wall", "tick"),
    [
        pytest.param(3600, 2.1, id="clock set forward, or the machine slept"),
        pytest.param(-3600, 2.1, id="clock set back"),
        pytest.param(30, 30, id="process frozen, or database unavailable"),
    ],
)
def test_expired_leases_get_a_grace_period_after_a_clock_jump(claim_loop, fake_clock, wall, tick):
    claim_loop.next_packages()
    row = abandoned(ClusterFactory())
    Execution.objects.update(lease_until=NOW - 2 * HOUR)
    fake_clock.advance(tick, wall_seconds=wall)

    claim_loop.next_packages()
    row.refresh_from_db()
    assert row.status == "running"

    for _ in range(6):
        fake_clock.advance(UPKEEP_EVERY + 0.1)
        claim_loop.next_packages()
    row.refresh_from_db()
    assert row.status != "running"


def test_job_created_while_the_clock_was_briefly_ahead_is_rearmed(claim_loop, fake_clock, monkeypatch):
    """The clock is ahead for less than one sweep, but a job is created in that time."""
    monkeypatch.setattr(clock_rollback, "time", fake_clock)
    monkeypatch.setattr(clock_rollback, "_recovery", clock_rollback._Recovery())
    claim_loop.next_packages()
    fake_clock.advance(UPKEEP_EVERY + 0.1, wall_seconds=3600 + UPKEEP_EVERY + 0.1)
    claim_loop.next_packages()
    job = JobFactory(cron="* * * * *", next_run_at=NOW + HOUR + timedelta(minutes=1))
    fake_clock.advance(UPKEEP_EVERY + 0.1, wall_seconds=UPKEEP_EVERY + 0.1 - 3600)

    claim_loop.next_packages()

    job.refresh_from_db()
    assert job.next_run_at == NOW + timedelta(minutes=1)


def test_every_tidy_sweeps_while_the_clock_is_steady(claim_loop, fake_clock):
    claim_loop.next_packages()
    row = abandoned(ClusterFactory())
    fake_clock.advance(UPKEEP_EVERY + 0.1)

    claim_loop.next_packages()

    row.refresh_from_db()
    assert row.status != "running"


# Errors


def refuse(*arguments: object, **options: object) -> None:
    raise OperationalError("the database is unavailable")


@pytest.mark.parametrize("steps", [("wake_up_at", "beat", "claim_runs"), ("wake_up_at", "claim_runs")])
def test_slots_missed_in_an_outage_name_it_and_the_cluster_records_it(
    claim_loop, cluster, fake_clock, monkeypatch, steps
):
    claim_loop.next_packages()
    JobFactory(interval=True, every=SECOND, anchor_at=NOW, next_run_at=NOW + SECOND)

    with monkeypatch.context() as outage:
        for step in steps:
            outage.setattr(engine, step, refuse)
        for _ in range(50):
            fake_clock.advance(1)
            claim_loop.next_packages()
    fake_clock.advance(1)
    claim_loop.next_packages()

    missed = Execution.objects.get(status="missed")
    assert (missed.reason, missed.slots) == (DATABASE, 50)
    fake_clock.advance(UPKEEP_EVERY + 0.1)
    claim_loop.next_packages()
    cluster.refresh_from_db()
    since, until, reason = cluster.interruptions[0]
    assert (datetime.fromisoformat(since), reason) == (NOW, DATABASE)
    assert datetime.fromisoformat(until) >= NOW + 50 * SECOND


def test_slots_missed_while_the_host_was_asleep_say_that_no_worker_was_running(claim_loop, fake_clock):
    claim_loop.next_packages()
    JobFactory(interval=True, every=SECOND, anchor_at=NOW, next_run_at=NOW + SECOND)

    fake_clock.advance(0.1, wall_seconds=3600)
    claim_loop.next_packages()

    assert Execution.objects.get(status="missed").reason == NO_CLUSTER


def test_cluster_remembers_its_last_interruptions(context, fake_clock):
    heartbeat = Heartbeat(context)
    for _ in range(2 * MAX_INTERRUPTIONS):
        fake_clock.advance(60)
        heartbeat.write(clock.now(), is_claim_blocked=False)
        fake_clock.advance(1)
        heartbeat.write(clock.now(), is_claim_blocked=False)

    assert len(heartbeat.interruptions(clock.now())) == MAX_INTERRUPTIONS


def test_slots_missed_while_long_functions_hold_all_permits_say_that_workers_were_busy(
    claim_loop, cluster, fake_clock, settings
):
    settings.CRONTY_WORKERS = 1
    ExecutionFactory(
        status="running", task="tests.ping", cluster=cluster, started_at=NOW, lease_until=NOW + HOUR
    )
    JobFactory(interval=True, every=SECOND, anchor_at=NOW, next_run_at=NOW + SECOND, task="tests.ping")
    for _ in range(100):
        fake_clock.advance(0.4)
        claim_loop.next_packages()
    Execution.objects.filter(status="running").update(status="succeeded", lease_until=None)
    # In short steps: a long one would look like a frozen cluster.
    for _ in range(10):
        fake_clock.advance(0.4)
        claim_loop.next_packages()

    assert Execution.objects.get(status="missed").reason == BUSY


@pytest.mark.parametrize("step", ["claim_runs", "beat", "sweep"])
@pytest.mark.parametrize("error", [OperationalError("away"), Error("odd"), ValueError("a bug")])
def test_claim_loop_pauses_after_an_error_and_tries_again(
    claim_loop, fake_clock, monkeypatch, caplog, step, error
):
    def fail(*arguments: object, **options: object) -> None:
        raise error

    due(task="tests.aping")
    with monkeypatch.context() as patch:
        patch.setattr(engine, step, fail)
        packages = claim_loop.next_packages()
    # The probe that was packed before a claim failed shows the leader that workers are alive.
    assert [item["func"] for item in packages] == ([packages_module.probe] if step == "claim_runs" else [])
    assert fake_clock.slept == [PAUSE_AFTER_ERROR]
    assert "trying again" in caplog.text

    fake_clock.advance(UPKEEP_EVERY + 1)
    claim_loop.next_packages()
    assert Execution.objects.count() == 1


def test_claim_loop_survives_an_error_while_planning_its_sleep(claim_loop, fake_clock, monkeypatch, caplog):
    claim_loop.next_packages()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "wake_up_at", refuse)
        assert claim_loop.next_packages() == []
    assert fake_clock.slept == [PAUSE_AFTER_ERROR]
    assert "trying again" in caplog.text

    due(task="tests.aping")
    assert len(runs_of(claim_loop.next_packages())) == 1


def test_jobs_fire_even_if_every_sweep_fails(claim_loop, monkeypatch):
    monkeypatch.setattr(engine, "sweep", refuse)
    due()

    assert claim_loop.next_packages() == []
    assert len(runs_of(claim_loop.next_packages())) == 1


def test_first_upkeep_arms_the_jobs_that_run_when_the_machine_starts(claim_loop, cluster):
    job = JobFactory(cron="@reboot", next_run_at=UNKNOWN_START)

    claim_loop.next_packages()

    assert list(Execution.objects.values_list("job", "status")) == [(job.pk, "claimed")]
