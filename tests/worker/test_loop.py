"""The event loop of a worker process: coroutines, plain functions, and their leases."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import (
    Error,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    connection,
    connections,
)

from schedules import clock, engine
from schedules.engine import Started
from schedules.models import Cluster, Execution, Job
from schedules.tasks.interface import WAITING, Final, RetryLater, Run
from schedules.tasks.registry import task
from schedules.worker import loop as loop_module
from schedules.worker import outcomes as leases_module
from schedules.worker import outcomes as writer_module
from schedules.worker.context import ClusterContext
from schedules.worker.loop import WorkerLoop
from tests.factories import ExecutionFactory, JobFactory
from tests.waiting import PATIENCE, wait_for

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)

RESULTS: dict[str, Any] = {"text": "fine", "waiting": WAITING}
ERRORS: dict[str, BaseException] = {"final": Final("never again"), "cancelled": asyncio.CancelledError()}


@task("tests.loop.agive")
async def agive(name: str) -> Any:
    return RESULTS[name]


@task("tests.loop.afail")
async def afail(name: str) -> None:
    await asyncio.sleep(0)
    raise ERRORS[name]


@task("tests.loop.slow")
async def slow(seconds: float = 60) -> str:
    await asyncio.sleep(seconds)
    return "done"


# The attempts that have begun, and those that may end.
BEGUN: list[int] = []
OPENED: set[int] = set()


@task("tests.loop.gated")
async def gated(*, run: Run) -> None:
    BEGUN.append(run.attempt)
    while run.attempt not in OPENED:
        await asyncio.sleep(0.01)


@task("tests.loop.count_jobs")
async def count_jobs(*, is_broken: bool = False, reaction: str = "") -> int | str:
    """Count jobs by the ORM's own thread, perhaps after its session has broken."""

    def use_session() -> None:
        connection.ensure_connection()
        if is_broken:
            connection.connection.close()

    await sync_to_async(use_session)()
    try:
        return await Job.objects.acount()
    except Error as error:
        match reaction:
            case "return":
                return "handled"
            case "retry":
                raise RetryLater("The database is away.") from error
            case "give up":
                raise Final("The database is away.") from error
        raise


IS_BLOCKED, MAY_GO_ON = threading.Event(), threading.Event()


@task("tests.loop.block")
async def block() -> None:
    """Keep the whole loop from running."""
    IS_BLOCKED.set()
    MAY_GO_ON.wait(PATIENCE)


BODIES: dict[int, datetime] = {}


@task("tests.loop.note_begin")
async def note_begin(*, run: Run) -> None:
    BODIES[run.execution_id] = clock.now()


STEPS: list[tuple[str, int]] = []


@task("tests.loop.two_steps")
async def two_steps(*, run: Run) -> None:
    STEPS.append(("begin", run.execution_id))
    await asyncio.sleep(0)
    STEPS.append(("go on", run.execution_id))


@task("tests.loop.breaks_out")
async def breaks_out() -> str:
    async def leave() -> None:
        raise SystemExit(1)

    leaving = asyncio.create_task(leave())
    await asyncio.sleep(0.02)
    leaving.exception()
    return "survived"


def make_running(cluster: Cluster, job: Job | None = None, **fields: Any) -> Started:
    row = ExecutionFactory(
        job=job or JobFactory(task="tests.loop.agive"), status="claimed", cluster=cluster, **fields
    )
    return engine.start_runs(cluster.pk, 0, [row.pk], NOW)[0]


def outcome_of(run: Started, **fields: Any) -> engine.Outcome:
    return engine.Outcome(
        run.execution_id, run.attempt, run.job_id, Execution.Status.SUCCEEDED, NOW, **fields
    )


@pytest.fixture
def loop(context: ClusterContext) -> Iterator[WorkerLoop]:
    made = WorkerLoop(context)
    yield made
    end(made)


def end(loop: WorkerLoop) -> None:
    """Drain a loop and wait for its threads, whose connections would keep the test's database open."""
    loop.drain(PATIENCE)
    loop._thread.join(PATIENCE)
    loop.outcomes.thread.join(PATIENCE)
    loop.leases.executor.shutdown(wait=True)


def status_of(run: Started) -> str:
    return Execution.objects.values_list("status", flat=True).get(pk=run.execution_id)


def test_chunk_runs_concurrently_and_each_outcome_is_written(cluster, loop):
    runs = [
        make_running(cluster, JobFactory(task=name, args=args))
        for name, args in [
            ("tests.loop.agive", ["text"]),
            ("tests.loop.afail", ["final"]),
            ("tests.loop.afail", ["cancelled"]),
            ("tests.loop.agive", ["waiting"]),
            ("tests.gone", []),
            ("tests.loop.slow", [0.01]),
        ]
    ]

    loop.start_coroutines(runs)

    assert loop.drain(PATIENCE)
    assert [status_of(run) for run in runs] == [
        "succeeded",
        "failed",
        "failed",
        "waiting",
        "failed",
        "succeeded",
    ]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database")
def test_worker_waits_for_its_turn_to_start_and_to_settle(cluster, context, loop):
    row = ExecutionFactory(job=JobFactory(task="tests.loop.agive"), status="claimed", cluster=cluster)
    outcome = outcome_of(make_running(cluster))
    started: list[Started] = []

    def start() -> None:
        started.extend(loop.start(0, [row.pk]))
        connections.close_all()

    thread = threading.Thread(target=start)
    with context.turns.take():
        loop.outcomes.add(outcome)
        thread.start()
        thread.join(0.1)
        seen = set(Execution.objects.values_list("status", flat=True))
    thread.join(PATIENCE)

    assert seen == {"claimed", "running"}
    assert [run.execution_id for run in started] == [row.pk]
    wait_for(lambda: Execution.objects.get(pk=outcome.execution_id).status == "succeeded")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError, InternalError, NotSupportedError])
def test_start_is_tried_again_on_a_new_connection(cluster, loop, monkeypatch, error):
    row = ExecutionFactory(job=JobFactory(task="tests.ping"), status="claimed", cluster=cluster)
    start, used = engine.start_runs, []

    def fail_once(*arguments: Any, **values: Any) -> list[Started]:
        connection.ensure_connection()
        used.append(connection.connection)
        if len(used) == 1:
            raise error("the connection broke")
        return start(*arguments, **values)

    monkeypatch.setattr(engine, "start_runs", fail_once)

    (started,) = loop.start(0, [row.pk])

    assert started.execution_id == row.pk
    assert used[0] is not used[1]


def test_first_coroutines_of_a_chunk_go_on_before_the_last_begin(cluster, loop):
    STEPS.clear()
    runs = [
        make_running(cluster, JobFactory(task="tests.loop.two_steps"))
        for _ in range(3 * loop_module.BEGIN_TOGETHER)
    ]

    loop.start_coroutines(runs)

    wait_for(lambda: len(STEPS) == 2 * len(runs))
    assert STEPS.index(("go on", runs[0].execution_id)) < STEPS.index(("begin", runs[-1].execution_id))


def test_start_in_the_ledger_is_when_the_body_began(cluster, loop):
    """It was taken before the start was committed, and coroutines then waited for their turn."""
    runs = [make_running(cluster, JobFactory(task="tests.loop.note_begin")) for _ in range(20)]
    committed_at = clock.now()

    loop.start_coroutines(runs)

    assert loop.drain(PATIENCE)
    for row in Execution.objects.all():
        assert row.started_at is not None
        assert committed_at <= row.started_at <= BODIES[row.pk]
        assert row.lateness == row.started_at - row.scheduled_for


def test_leases_of_executions_in_progress_are_renewed(cluster, context, settings):
    settings.CRONTY_LEASE_SECONDS = 0.03
    loop = WorkerLoop(context)
    plain, coroutine = make_running(cluster), make_running(cluster, JobFactory(task="tests.loop.slow"))
    idle = make_running(cluster)
    loop.start_coroutines([coroutine])

    def leases() -> dict[int, datetime]:
        return dict(Execution.objects.values_list("pk", "lease_until"))

    before = leases()
    loop.leases.hold([plain])
    wait_for(lambda: all(leases()[run.execution_id] > before[run.execution_id] for run in (plain, coroutine)))
    loop.leases.drop(plain)

    assert leases()[idle.execution_id] == before[idle.execution_id]
    loop.drain(0)
    end(loop)


def test_leases_are_renewed_while_a_coroutine_blocks_the_loop(cluster, context, settings):
    settings.CRONTY_LEASE_SECONDS = 0.03
    IS_BLOCKED.clear()
    MAY_GO_ON.clear()
    loop, blocking = WorkerLoop(context), make_running(cluster, JobFactory(task="tests.loop.block"))
    plain, other = make_running(cluster), make_running(cluster, JobFactory(task="tests.loop.slow"))
    loop.start_coroutines([other, blocking])
    wait_for(IS_BLOCKED.is_set)
    before = dict(Execution.objects.values_list("pk", "lease_until"))

    loop.leases.hold([plain])
    for run in (plain, other, blocking):
        wait_for(lambda pk=run.execution_id: Execution.objects.get(pk=pk).lease_until > before[pk])
    loop.leases.drop(plain)
    assert status_of(blocking) == "running"

    MAY_GO_ON.set()
    wait_for(lambda: status_of(blocking) == "succeeded")
    loop.drain(0)
    end(loop)


def test_loop_is_stuck_while_a_coroutine_blocks_it_after_its_time_limit(
    cluster, context, settings, monkeypatch
):
    settings.CRONTY_LEASE_SECONDS = 0.03
    for module in (loop_module, leases_module):
        monkeypatch.setattr(module, "OVERTIME", 0.1)
    IS_BLOCKED.clear()
    MAY_GO_ON.clear()
    job = JobFactory(task="tests.loop.block", timeout=timedelta(milliseconds=1))
    loop, blocking, plain = WorkerLoop(context), make_running(cluster, job), make_running(cluster)
    try:
        loop.start_coroutines([blocking])
        wait_for(IS_BLOCKED.is_set)
        wait_for(lambda: loop.is_stuck)
        # Outcomes of other runs are written nevertheless.
        loop.outcomes.add(outcome_of(plain), in_sequence=True)
        wait_for(lambda: status_of(plain) == "succeeded")
        assert loop.is_stuck
    finally:
        MAY_GO_ON.set()
    wait_for(lambda: not loop.is_stuck)
    end(loop)


def test_lease_of_a_run_that_never_ends_is_not_renewed_for_ever(cluster, loop, monkeypatch):
    run = make_running(cluster)
    loop.leases.hold([run])
    assert loop.leases.held() == {run.execution_id}

    monkeypatch.setattr(leases_module, "OVERTIME", -run.timeout.total_seconds())
    loop.leases.hold([run])
    assert loop.leases.held() == set()
    loop.leases.drop(run)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="a session of SQLite does not break")
@pytest.mark.parametrize(
    ("reaction", "status"),
    [("", "queued"), ("retry", "queued"), ("give up", "failed"), ("return", "succeeded")],
)
def test_coroutine_that_uses_the_orm_runs_after_its_session_has_broken(cluster, loop, reaction, status):
    breaks, counts = (
        make_running(cluster, JobFactory(task="tests.loop.count_jobs", kwargs=kwargs, attempts=2))
        for kwargs in ({"is_broken": True, "reaction": reaction}, {})
    )
    try:
        loop.start_coroutines([breaks])
        wait_for(lambda: status_of(breaks) == status)
        loop.start_coroutines([counts])
        wait_for(lambda: status_of(counts) != "running")
    finally:
        # The thread of the ORM outlives the loop.
        loop.spawn(sync_to_async(connections.close_all)()).result(PATIENCE)

    assert Execution.objects.get(pk=counts.execution_id).result == 2


def test_drain_waits_no_longer_than_its_limit(cluster, loop):
    run = make_running(cluster, JobFactory(task="tests.loop.slow"))
    loop.start_coroutines([run])

    assert loop.drain(0.05) is False
    assert loop.drain(PATIENCE) is True
    loop._thread.join(PATIENCE)
    # An interrupted execution has no outcome; the leader hands it back.
    assert status_of(run) == "running"


def test_what_has_ended_is_written_although_something_else_goes_on_after_a_drain(cluster, loop, monkeypatch):
    monkeypatch.setattr(writer_module, "FLUSH_AFTER", 1000)
    monkeypatch.setattr(loop_module, "WAIT_FOR_WRITER", PATIENCE)
    ended, slow_run = make_running(cluster), make_running(cluster, JobFactory(task="tests.loop.slow"))
    loop.start_coroutines([slow_run])
    loop.outcomes.add(outcome_of(ended))

    assert loop.drain(0.05) is False

    assert (status_of(ended), status_of(slow_run)) == ("succeeded", "running")


def test_loop_survives_a_task_that_breaks_out_of_it(cluster, loop, caplog):
    rude = make_running(cluster, JobFactory(task="tests.loop.breaks_out"))
    polite = make_running(cluster, JobFactory(task="tests.loop.slow", args=[0.05]))

    loop.start_coroutines([rude, polite])

    assert loop.drain(PATIENCE)
    assert {status_of(rude), status_of(polite)} == {"succeeded"}
    assert "broke out of the loop" in caplog.text


def test_drain_survives_a_database_outage(cluster, loop, monkeypatch, caplog):
    """An outcome that could not be written at once must not be lost: the execution would run again."""
    caplog.set_level(logging.CRITICAL)
    settle, refusals = engine.settle_runs, [3]

    def unavailable_for_a_while(cluster_id: int, outcomes: Any) -> engine.Settled:
        if refusals[0]:
            refusals[0] -= 1
            raise OperationalError("the server closed the connection unexpectedly")
        return settle(cluster_id, outcomes)

    run = make_running(cluster)
    monkeypatch.setattr(engine, "settle_runs", unavailable_for_a_while)
    loop.outcomes.add(outcome_of(run))

    assert loop.drain(PATIENCE)
    assert status_of(run) == "succeeded"


def test_runs_behind_a_failed_start_are_released_and_nothing_goes_on_watching(cluster, loop, monkeypatch):
    rows = [ExecutionFactory(status="claimed", cluster=cluster) for _ in range(3)]

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as outage:
        outage.setattr(engine, "start_runs", fail)
        with pytest.raises(OperationalError):
            list(loop.start_in_sequence(0, [row.pk for row in rows]))

    waiting = Execution.objects.filter(pk__in=[row.pk for row in rows[1:]], status="queued", cluster=None)
    wait_for(lambda: waiting.count() == 2)
    wait_for(lambda: not asyncio.all_tasks(loop._loop))


def test_queue_shared_with_another_thread_is_drained_without_loss():
    class Shared(deque):
        def popleft(self):
            mine = super().popleft()
            if self:
                super().popleft()
            return mine

    assert list(loop_module._drained(Shared([1, 2, 3, 4, 5]))) == [1, 3, 5]


@pytest.mark.django_db(transaction=True)
def test_end_of_an_old_attempt_keeps_the_lease_of_the_new_one(cluster, loop):
    BEGUN.clear()
    OPENED.clear()
    first = make_running(cluster, JobFactory(task="tests.loop.gated"))
    loop.start_coroutines([first])
    wait_for(lambda: BEGUN == [1])
    old = loop._tasks[first.execution_id]
    # Its lease expired, and the run came to the same worker again.
    Execution.objects.filter(pk=first.execution_id).update(status="claimed")
    loop.start_coroutines(engine.start_runs(cluster.pk, 1, [first.execution_id], clock.now()))
    wait_for(lambda: BEGUN == [1, 2])

    OPENED.add(1)
    wait_for(old.done)
    held = loop.leases.held()
    OPENED.add(2)
    wait_for(lambda: loop.leases.is_empty)

    assert held == {first.execution_id}
