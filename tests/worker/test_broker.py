"""django-q2's broker over the ledger: what it hands out, and how it rests."""

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import Error, OperationalError, connection, connections
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from schedules import engine
from schedules.engine import clock_rollback
from schedules.models import Cluster, Execution, Job
from schedules.worker import broker as broker_module
from schedules.worker import runner
from schedules.worker.broker import (
    CHUNK,
    HELD,
    PAUSE_AFTER_ERROR,
    POLL,
    TIDY_EVERY,
    WORTH_CLAIMING,
    LedgerBroker,
)
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class FakeTime:
    """Stands in for the module `time`: nobody really sleeps, and the tick is ours."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.tick = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.tick

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def go_on(self, seconds: float) -> None:
        """Let time pass, on the wall and on the tick."""
        self.tick += seconds
        self.clock.shift(timedelta(seconds=seconds))


@pytest.fixture
def time(time_machine, monkeypatch) -> FakeTime:
    time_machine.move_to(NOW, tick=False)
    fake = FakeTime(time_machine)
    monkeypatch.setattr(broker_module, "time", fake)
    # The connection of a test is the test's own: it must outlive a database that is away.
    monkeypatch.setattr(connections, "close_all", lambda: None)
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)
    return fake


@pytest.fixture
def worker(time: FakeTime, monkeypatch) -> Cluster:
    row = ClusterFactory()
    monkeypatch.setattr(broker_module, "cluster_id", row.pk)
    return row


@pytest.fixture
def broker(worker: Cluster) -> Iterator[LedgerBroker]:
    return LedgerBroker()


def contents(packages: list[tuple[str, str]] | None) -> list[dict[str, Any]]:
    return [SignedPackage.loads(package) for _, package in packages or []]


def runs_of(packages: list[tuple[str, str]] | None) -> list[tuple[Any, tuple[Any, ...]]]:
    """The packages but for the probe."""
    return [(item["func"], item["args"]) for item in contents(packages) if item["func"] is not runner.probe]


def due(count: int = 1, **fields: Any) -> list[Job]:
    owner = UserFactory()
    values = {"owner": owner, "next_run_at": NOW, "cron": "0 * * * *"} | fields
    return [JobFactory(**values) for _ in range(count)]


# Packages


def test_first_turn_brings_a_probe_and_what_is_due(broker, worker):
    due(task="tests.aping")

    packages = broker.dequeue()

    (row,) = Execution.objects.all()
    assert [ack_id for ack_id, _ in packages] == [f"probe {NOW.isoformat()}", ""]
    assert runs_of(packages) == [(runner.run, (worker.pk, 0, [row.pk]))]


def test_coroutines_travel_in_chunks_and_plain_functions_alone(broker, worker, monkeypatch):
    monkeypatch.setattr(broker_module, "CHUNK", 4)
    due(10, task="tests.aping")
    due(2, task="tests.ping", timeout=timedelta(seconds=7))
    due(1, task="tests.gone", timeout=timedelta(milliseconds=1))

    packages = contents(broker.dequeue())

    chunks = [item["args"][2] for item in packages if item["func"] is runner.run]
    alone = [item for item in packages if item["func"] is runner.run_in_turn]
    assert sorted(map(len, chunks)) == [2, 4, 4]
    assert sorted(item["timeout"] for item in alone) == [1, 7, 7]
    ids = [pk for item in packages if item["func"] is not runner.probe for pk in item["args"][2]]
    assert sorted(ids) == sorted(Execution.objects.values_list("pk", flat=True))


@pytest.mark.parametrize(("count", "size"), [(39, 1), (40, 2), (90, 3), (400, 5)])
def test_plain_functions_travel_together_only_in_a_burst(broker, settings, count, size):
    settings.CRONTY_WORKERS = 2
    due(1, task="tests.ping", timeout=timedelta(seconds=9))
    due(count - 1, task="tests.ping", timeout=timedelta(seconds=8.2))

    packages = [item for item in contents(broker.dequeue()) if item["func"] is runner.run_in_turn]

    assert max(len(item["args"][2]) for item in packages) == size
    assert sum(len(item["args"][2]) for item in packages) == count
    # The time limit of the slowest of them; each has its own besides.
    assert {item["timeout"] for item in packages} == {9}


def test_attempts_travel_apart(broker, worker):
    job = JobFactory(task="tests.aping", next_run_at=NOW + HOUR)
    for attempt in (0, 1, 1):
        ExecutionFactory(job=job, status="queued", available_at=NOW, attempt=attempt, cause="manual")

    runs = runs_of(broker.dequeue())

    assert sorted((args[1], len(args[2])) for _, args in runs) == [(0, 1), (1, 2)]


def test_packages_hold_a_function_of_ours_and_integers(broker):
    due(3, task="tests.aping", name="'; DROP TABLE", kwargs={"fail": True})
    due(1, task="tests.ping", args=[1, 2, 3])

    for item in contents(broker.dequeue()):
        assert item["func"] in (runner.run, runner.run_in_turn, runner.probe)
        assert item["kwargs"] == {}
        for argument in item["args"]:
            assert isinstance(argument, int) or all(isinstance(part, int) for part in argument)
        assert "DROP" not in str(item)


def test_chunk_is_small_enough_to_be_handed_over():
    assert CHUNK <= WORTH_CLAIMING <= HELD


# Rest


def test_idle_broker_rests_without_claiming(broker, time, django_assert_max_num_queries):
    JobFactory(next_run_at=NOW + HOUR)
    assert runs_of(broker.dequeue()) == []
    broker.dequeue()
    time.slept.clear()

    with django_assert_max_num_queries(0 if connection.vendor == "sqlite" else 2):
        assert broker.dequeue() is None

    assert time.slept == [POLL]


def test_broker_sleeps_no_longer_than_until_the_next_job(broker, time):
    JobFactory(next_run_at=NOW + timedelta(seconds=0.03))
    broker.dequeue()
    time.slept.clear()

    assert broker.dequeue() is None
    assert time.slept == [pytest.approx(0.03)]
    time.go_on(0.03)
    assert len(runs_of(broker.dequeue())) == 1


def test_empty_ledger_is_no_reason_to_stay_awake(broker, time):
    broker.dequeue()
    time.slept.clear()

    assert broker.dequeue() is None
    assert time.slept == [POLL]


@pytest.mark.django_db(transaction=True)
def test_job_made_by_somebody_else_is_noticed_at_the_next_look(broker, time):
    broker.dequeue()
    assert broker.dequeue() is None

    def make() -> None:
        due()
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(make).result()

    assert len(runs_of(broker.dequeue())) == 1


def test_new_connection_looks_again(broker, time):
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite tells of changes by a number")
    broker.dequeue()
    broker.dequeue()
    due()
    # Our own writes do not change the number; a connection that was closed meanwhile forgets it.
    assert broker.dequeue() is None

    broker._seen_connection = object()

    assert len(runs_of(broker.dequeue())) == 1


def test_more_work_than_a_batch_is_claimed_turn_by_turn(broker, monkeypatch):
    monkeypatch.setattr(broker_module, "BATCH", 3)
    due(7, task="tests.aping")

    counts = [sum(len(args[2]) for _, args in runs_of(broker.dequeue())) for _ in range(3)]

    assert counts == [3, 3, 1]


# Room


def test_full_cluster_claims_nothing_and_does_not_spin(broker, worker, time, monkeypatch):
    monkeypatch.setattr(broker_module, "HELD", 5)
    monkeypatch.setattr(broker_module, "WORTH_CLAIMING", 2)
    job = JobFactory(next_run_at=NOW + HOUR)
    for _ in range(4):
        ExecutionFactory(job=job, status="running", cluster=worker, cause="manual", lease_until=NOW + HOUR)
    due()
    assert runs_of(broker.dequeue()) == []
    time.slept.clear()

    assert broker.dequeue() is None

    assert time.slept == [POLL / 4]
    Execution.objects.filter(pk=Execution.objects.first().pk).update(status="succeeded")
    assert len(runs_of(broker.dequeue())) == 1


def test_claims_of_another_cluster_take_no_room(broker, monkeypatch):
    monkeypatch.setattr(broker_module, "HELD", 2)
    monkeypatch.setattr(broker_module, "WORTH_CLAIMING", 2)
    ExecutionFactory(status="running", cluster=ClusterFactory(), lease_until=NOW + HOUR)
    due()

    assert len(runs_of(broker.dequeue())) == 1


def test_long_plain_functions_leave_room_for_coroutines_only(broker, worker, time, settings):
    settings.CRONTY_WORKERS = 2
    for _ in range(2):
        ExecutionFactory(
            job=JobFactory(next_run_at=NOW + HOUR),
            status="running",
            cluster=worker,
            started_at=NOW - SECOND,
            lease_until=NOW + HOUR,
        )
    due(task="tests.ping")
    due(task="tests.aping")

    assert [function for function, _ in runs_of(broker.dequeue())] == [runner.run]
    time.slept.clear()
    # What must wait for a lane is no reason to stay awake.
    assert broker.dequeue() is None
    assert time.slept == [POLL]
    Execution.objects.filter(status="running").update(status="succeeded")
    time.go_on(TIDY_EVERY + 1)
    assert [function for function, _ in runs_of(broker.dequeue())] == [runner.run_in_turn]


def test_short_plain_functions_do_not_count_as_long(broker, worker, settings):
    settings.CRONTY_WORKERS = 1
    ExecutionFactory(
        job=JobFactory(next_run_at=NOW + HOUR),
        status="running",
        cluster=worker,
        started_at=NOW,
        lease_until=NOW + HOUR,
    )
    due(task="tests.ping")

    assert len(runs_of(broker.dequeue())) == 1


@pytest.mark.parametrize("task", ["tests.ping", "tests.aping"])
def test_quiet_cluster_counts_nothing_before_a_claim(broker, settings, django_assert_max_num_queries, task):
    settings.CRONTY_WORKERS = 2
    broker.dequeue()
    broker.dequeue()
    due(task=task)
    broker._wake_up_at = 0

    # Queued runs, due jobs, live runs, the row, the next slot; and the transaction, inside the test's own.
    with django_assert_max_num_queries(7) as queries:
        assert len(runs_of(broker.dequeue())) == 1
    assert not [query for query in queries.captured_queries if "COUNT(" in query["sql"]]


def test_claims_are_counted_with_the_next_beat(broker, worker, time):
    due(3)
    broker.dequeue()
    time.go_on(TIDY_EVERY + 1)
    broker.dequeue()

    worker.refresh_from_db()
    assert worker.claimed_count == 3


def test_nothing_is_claimed_for_a_cluster_that_stops(broker, time):
    due(task="tests.aping")
    broker_module.is_stopping.value = 1
    try:
        assert broker.dequeue() is None
    finally:
        broker_module.is_stopping.value = 0
    assert time.slept == [POLL]
    assert len(runs_of(broker.dequeue())) == 1


# Tidying


def test_broker_beats_and_probes_every_few_seconds(broker, worker, time):
    assert len(broker.dequeue()) == 1
    assert broker.dequeue() is None
    time.go_on(TIDY_EVERY + 0.1)

    (probe,) = broker.dequeue()

    worker.refresh_from_db()
    assert worker.last_seen_at == NOW + timedelta(seconds=TIDY_EVERY + 0.1)
    assert probe[0] == f"probe {worker.last_seen_at.isoformat()}"


def test_probe_that_came_round_is_noted_with_the_moment_it_set_out(broker, worker):
    sent_at = NOW - SECOND

    broker.acknowledge(f"probe {sent_at.isoformat()}")

    worker.refresh_from_db()
    assert worker.probe_returned_at == sent_at


def test_other_packages_need_no_acknowledgement(broker, django_assert_num_queries):
    with django_assert_num_queries(0):
        broker.acknowledge("run")


def test_probe_while_the_database_is_away_is_forgotten(broker, worker, monkeypatch):
    before = worker.probe_returned_at
    with monkeypatch.context() as away:
        away.setattr(engine, "probe_returned", refuse)
        broker.acknowledge(f"probe {NOW.isoformat()}")
    worker.refresh_from_db()
    assert worker.probe_returned_at == before

    broker.acknowledge(f"probe {(NOW + HOUR).isoformat()}")

    worker.refresh_from_db()
    assert worker.probe_returned_at == NOW + HOUR


def abandoned(worker: Cluster) -> Execution:
    job = JobFactory(next_run_at=NOW + HOUR)
    return ExecutionFactory(
        job=job, status="running", attempt=1, cluster=worker, lease_until=NOW - SECOND, scheduled_for=NOW
    )


def test_lease_that_ran_out_is_swept_at_the_first_turn(broker):
    row = abandoned(ClusterFactory())

    broker.dequeue()

    row.refresh_from_db()
    assert row.status in ("queued", "claimed")


@pytest.mark.parametrize(
    ("wall", "tick"),
    [
        pytest.param(3600, 2.1, id="clock put forward, or the machine slept"),
        pytest.param(-3600, 2.1, id="clock put back"),
        pytest.param(30, 30, id="frozen, or the database was away"),
    ],
)
def test_after_a_jump_those_who_live_get_a_lease_to_show_it(broker, time, wall, tick):
    broker.dequeue()
    row = abandoned(ClusterFactory())
    Execution.objects.update(lease_until=NOW - 2 * HOUR)
    time.tick += tick
    time.clock.shift(timedelta(seconds=wall))

    broker.dequeue()
    row.refresh_from_db()
    assert row.status == "running"

    for _ in range(6):
        time.go_on(TIDY_EVERY + 0.1)
        broker.dequeue()
    row.refresh_from_db()
    assert row.status != "running"


def test_clock_that_was_ahead_for_a_few_seconds_leaves_nothing_ahead(broker, time, monkeypatch):
    """Too short for a sweep, long enough for somebody to make a job."""
    monkeypatch.setattr(clock_rollback, "time", time)
    monkeypatch.setattr(clock_rollback, "_recovery", clock_rollback._Recovery())
    broker.dequeue()
    time.clock.shift(HOUR)
    time.go_on(TIDY_EVERY + 0.1)
    broker.dequeue()
    job = JobFactory(cron="* * * * *", next_run_at=NOW + HOUR + timedelta(minutes=1))
    time.clock.shift(-HOUR)
    time.go_on(TIDY_EVERY + 0.1)

    broker.dequeue()

    job.refresh_from_db()
    assert job.next_run_at == NOW + timedelta(minutes=1)


def test_steady_turns_sweep_every_time(broker, time):
    broker.dequeue()
    row = abandoned(ClusterFactory())
    time.go_on(TIDY_EVERY + 0.1)

    broker.dequeue()

    row.refresh_from_db()
    assert row.status != "running"


# Trouble


def refuse(*arguments: object, **options: object) -> None:
    raise OperationalError("the database is away")


@pytest.mark.parametrize("step", ["claim_runs", "beat", "sweep"])
@pytest.mark.parametrize("error", [OperationalError("away"), Error("odd"), ValueError("a bug")])
def test_error_in_any_step_is_survived_without_hammering(broker, time, monkeypatch, caplog, step, error):
    def fail(*arguments: object, **options: object) -> None:
        raise error

    due(task="tests.aping")
    with monkeypatch.context() as patch:
        patch.setattr(engine, step, fail)
        assert broker.dequeue() is None
    assert time.slept == [PAUSE_AFTER_ERROR]
    assert "trying again" in caplog.text

    time.go_on(TIDY_EVERY + 1)
    broker.dequeue()
    assert Execution.objects.count() == 1


def test_error_in_looking_ahead_is_survived(broker, time, monkeypatch, caplog):
    broker.dequeue()
    with monkeypatch.context() as patch:
        patch.setattr(engine, "wake_up_at", refuse)
        assert broker.dequeue() is None
    assert time.slept == [PAUSE_AFTER_ERROR]
    assert "trying again" in caplog.text

    due(task="tests.aping")
    assert len(runs_of(broker.dequeue())) == 1


def test_sweep_that_always_fails_does_not_keep_jobs_from_firing(broker, monkeypatch):
    monkeypatch.setattr(engine, "sweep", refuse)
    due()

    assert broker.dequeue() is None
    assert len(runs_of(broker.dequeue())) == 1


def test_broker_needs_a_cluster_around_it(time, monkeypatch, caplog):
    monkeypatch.setattr(broker_module, "cluster_id", 0)

    assert LedgerBroker().dequeue() is None
    assert "manage.py qcluster" in caplog.text


# What django-q2 asks


def test_broker_tells_what_lies_there(broker, worker):
    job = JobFactory(next_run_at=NOW + HOUR)
    for status, available_at in [
        ("queued", NOW),
        ("queued", NOW + HOUR),
        ("claimed", None),
        ("running", None),
    ]:
        ExecutionFactory(job=job, status=status, available_at=available_at, cause="manual")

    assert (broker.queue_size(), broker.lock_size()) == (1, 2)
    assert broker.ping()
    assert broker.info() == "Cronty's ledger"
    assert pickle.loads(pickle.dumps(broker)).ping()  # noqa: S301


def test_task_of_django_q2_is_refused_instead_of_dropped():
    with pytest.raises(NotImplementedError, match=r"schedules\.tasks\.task"):
        async_task("math.sqrt", 4)
