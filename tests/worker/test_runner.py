"""What a worker does with what it claimed, and what it writes down."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django_q.exceptions import TimeoutException

from schedules import clock, engine
from schedules.engine import Started
from schedules.models import Cluster, Execution, Job
from schedules.tasks import registry
from schedules.tasks.registry import WAITING, Final, RetryLater, Run, task
from schedules.worker import concurrency, runner
from schedules.worker.runner import KEPT_BYTES, WorkerLoop
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Rude(BaseException):
    """Neither an Exception nor anything anybody knows."""


class Shy:
    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

RESULTS: dict[str, Any] = {
    "text": "fine",
    "number": 1.5,
    "nothing": None,
    "tree": {"a": [1, {"b": None}]},
    "waiting": WAITING,
    "set": {1},
    "object": object(),
    "odd keys": {(1, 2): 3},
    "shy": Shy(),
    "shy in a list": [Shy()],
    "circle": CIRCLE,
    "nul": "a\x00b",
    "half a pair": "\ud800",
    "nan": float("nan"),
    "huge number": 10**30,
    "huge": "ü" * 100_000,
    "deep": [[[[[[[[[[[[1]]]]]]]]]]]],
    "bytes": b"\xff",
}
ERRORS: dict[str, BaseException] = {
    "runtime": RuntimeError("broken"),
    "wordless": ValueError(),
    "final": Final("never again"),
    "later": RetryLater("later", timedelta(hours=3)),
    "much later": RetryLater("later", timedelta.max),
    "later, some time": RetryLater("later"),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "rude": Rude("out of my way"),
    "cancelled": asyncio.CancelledError(),
    "timeout": TimeoutError("the server was slow"),
    "unspeakable": Unspeakable(),
    "nul": RuntimeError("a\x00b"),
    "huge": RuntimeError("x" * 100_000),
}


@task("tests.runner.give")
def give(name: str) -> Any:
    return RESULTS[name]


@task("tests.runner.agive")
async def agive(name: str) -> Any:
    return RESULTS[name]


@task("tests.runner.fail")
def fail(name: str) -> None:
    raise ERRORS[name]


@task("tests.runner.afail")
async def afail(name: str) -> None:
    await asyncio.sleep(0)
    raise ERRORS[name]


@task("tests.runner.context")
def context(*, run: Run) -> dict[str, Any]:
    return {"key": run.key, "attempt": run.attempt, "job": run.job_id, "timeout": run.timeout}


@task("tests.runner.awaitable")
def awaitable() -> Any:
    """A plain function by its looks, but what it gives is to be awaited."""
    return agive("text")


@task("tests.runner.slow")
async def slow(seconds: float = 60) -> str:
    await asyncio.sleep(seconds)
    return "done"


@task("tests.runner.until_alone")
def until_alone() -> int:
    """Goes on until the others have been let go; tells how many there were."""
    until(lambda: Execution.objects.filter(status="claimed").count() == 0)
    return Execution.objects.filter(status="queued", cluster=None).count()


@task("tests.runner.sleep")
def sleep_long() -> None:
    time.sleep(10)  # noqa: TID251


@task("tests.runner.breaks_out")
async def breaks_out() -> str:
    async def leave() -> None:
        raise SystemExit(1)

    leaving = asyncio.create_task(leave())
    await asyncio.sleep(0.02)
    leaving.exception()
    return "survived"


def started(name: str = "tests.runner.give", *, attempt: int = 1, **fields: Any) -> Started:
    values: dict[str, Any] = {
        "execution_id": 1,
        "attempt": attempt,
        "cause": "schedule",
        "scheduled_for": NOW,
        "owner_id": 1,
        "job_id": 1,
        "task": name,
        "job_public_id": "job_1_1",
        "job_name": "Job",
        "args": [],
        "kwargs": {},
        "timeout": timedelta(seconds=60),
        "attempts": 3,
        "backoff": timedelta(seconds=10),
        "signing_key": None,
    }
    return Started(**values | fields)


def run_once(name: str, **fields: Any) -> engine.Outcome:
    """Run a task as its kind is run."""
    run, found = started(name, **fields), registry.get(name)
    if found and found.is_coroutine:
        return asyncio.run(runner.run_coroutine(run, found))
    return runner.run_plain(run, found)


# One run


@pytest.mark.parametrize("name", ["tests.runner.give", "tests.runner.agive"])
@pytest.mark.parametrize("kind", ["text", "number", "nothing", "tree"])
def test_result_is_kept_as_it_is(name, kind):
    outcome = run_once(name, args=[kind])

    assert (outcome.status, outcome.result, outcome.error) == ("succeeded", RESULTS[kind], "")
    assert outcome.retry_at is None


@pytest.mark.parametrize("name", ["tests.runner.give", "tests.runner.agive"])
@pytest.mark.parametrize(
    "kind",
    [kind for kind in RESULTS if kind not in ("text", "number", "nothing", "tree", "waiting")],
)
def test_result_that_cannot_be_kept_is_still_a_success(name, kind):
    outcome = run_once(name, args=[kind])

    assert outcome.status == "succeeded"
    assert set(outcome.result) == {"kept", "note"}
    assert len(outcome.result["kept"].encode()) <= KEPT_BYTES
    assert "\x00" not in outcome.result["kept"]


@pytest.mark.parametrize("name", ["tests.runner.give", "tests.runner.agive"])
def test_prompt_may_wait(name):
    assert run_once(name, args=["waiting"]).status == "waiting"


@pytest.mark.parametrize("name", ["tests.runner.fail", "tests.runner.afail"])
@pytest.mark.parametrize(
    ("kind", "words", "is_retried", "has_trace"),
    [
        ("runtime", "RuntimeError: broken", True, True),
        ("wordless", "ValueError: ValueError", True, True),
        ("final", "never again", False, False),
        ("later", "later", True, False),
        ("much later", "later", True, False),
        ("later, some time", "later", True, False),
        ("exit", "SystemExit: 3", True, True),
        ("interrupt", "KeyboardInterrupt: KeyboardInterrupt", True, True),
        ("rude", "Rude: out of my way", True, True),
        ("cancelled", "CancelledError: CancelledError", True, True),
        ("timeout", "the server was slow", True, True),
        ("unspeakable", "Unspeakable: Unspeakable", True, True),
        ("nul", "RuntimeError: ab", True, True),
    ],
)
def test_whatever_is_raised_becomes_the_outcome(name, kind, words, is_retried, has_trace):
    outcome = run_once(name, args=[kind])

    assert (outcome.status, outcome.error) == ("failed", words)
    assert bool(outcome.retry_at) is is_retried
    assert bool(outcome.traceback) is has_trace


def test_task_that_asks_for_time_gets_it():
    outcome = run_once("tests.runner.fail", args=["later"])

    assert outcome.retry_at is not None
    assert outcome.retry_at - outcome.finished_at > timedelta(hours=2, minutes=59)


def test_long_error_is_shortened():
    outcome = run_once("tests.runner.fail", args=["huge"])

    assert len(outcome.error) == KEPT_BYTES
    assert len(outcome.traceback) == KEPT_BYTES


def test_last_attempt_is_not_repeated():
    assert run_once("tests.runner.fail", args=["runtime"], attempt=3).retry_at is None


def test_timeout_of_a_plain_function_is_told_in_its_own_words():
    def late() -> None:
        raise TimeoutException("django-q2's own words")

    found = registry.get("tests.runner.give")
    assert found is not None
    outcome = runner.run_plain(
        started(timeout=timedelta(seconds=2.5)), _with_function(found, lambda name="": late())
    )

    assert (outcome.status, outcome.error) == ("failed", "Timed out after 2.5 seconds.")
    assert outcome.retry_at


def _with_function(found: registry.Task, function: Callable[..., Any]) -> registry.Task:
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    fields["signature"] = fields["signature"].replace(parameters=[])
    return registry.Task(
        **fields | {"function": function, "adapter": registry.get("tests.runner.context").adapter}
    )  # type: ignore[union-attr]


def test_coroutine_that_takes_too_long_is_stopped():
    outcome = run_once("tests.runner.slow", timeout=timedelta(seconds=0.01))

    assert (outcome.status, outcome.error) == ("failed", "Timed out after 0.01 seconds.")


@pytest.mark.parametrize("run_it", [runner.run_plain, lambda *args: asyncio.run(runner.run_coroutine(*args))])
def test_unknown_task_fails_for_good(run_it):
    outcome = run_it(started("tests.gone"), None)

    assert (outcome.status, outcome.error) == ("failed", "Unknown task: tests.gone")
    assert outcome.retry_at is None


def test_wrong_arguments_fail_for_good():
    outcome = run_once("tests.runner.give", kwargs={"nam": 1})

    assert outcome.error.startswith("Invalid arguments: nam: unknown argument")
    assert outcome.retry_at is None


def test_awaitable_of_a_plain_function_is_awaited_among_coroutines():
    found = registry.get("tests.runner.awaitable")

    assert asyncio.run(runner.run_coroutine(started(), found)).result == "fine"


def test_task_may_ask_for_its_run():
    outcome = run_once("tests.runner.context", attempt=2)

    assert outcome.result == {
        "key": "job_1_1@20260204T090000.000000Z",
        "attempt": 2,
        "job": "job_1_1",
        "timeout": 60,
    }


def test_probe_does_nothing():
    assert runner.probe() is None


# Writing


def make_running(worker: Cluster, job: Job | None = None, **fields: Any) -> Started:
    row = ExecutionFactory(
        job=job or JobFactory(task="tests.runner.agive"), status="claimed", cluster=worker, **fields
    )
    return engine.start_runs(worker.pk, 0, [row.pk], NOW)[0]


def outcome_of(run: Started, **fields: Any) -> engine.Outcome:
    return engine.Outcome(
        run.execution_id, run.attempt, run.job_id, Execution.Status.SUCCEEDED, NOW, **fields
    )


@pytest.mark.django_db
def test_outcome_that_the_database_refuses_fails_alone():
    worker = ClusterFactory()
    runs = [make_running(worker) for _ in range(3)]
    # No outcome of ours looks like this; a set is no JSON anywhere.
    outcomes = [outcome_of(runs[0], result=1), outcome_of(runs[1], result={2}), outcome_of(runs[2], result=3)]

    runner.write(worker.pk, outcomes)

    rows = Execution.objects.order_by("pk").values_list("status", "result", "error")
    assert list(rows) == [
        ("succeeded", 1, ""),
        ("failed", None, "The outcome of this run could not be stored."),
        ("succeeded", 3, ""),
    ]


@pytest.mark.django_db
def test_nul_in_an_outcome_upsets_nobody():
    worker = ClusterFactory()
    runs = [make_running(worker) for _ in range(2)]

    runner.write(worker.pk, [outcome_of(runs[0], error="a\x00b"), outcome_of(runs[1])])

    first, second = Execution.objects.order_by("pk")
    assert first.status == ("failed" if connection.vendor == "postgresql" else "succeeded")
    assert second.status == "succeeded"


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 2])
def test_busy_database_condemns_no_outcome(monkeypatch, count):
    worker = ClusterFactory()
    runs = [make_running(worker) for _ in range(count)]

    def refuse(*arguments: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(engine, "settle_runs", refuse)

    with pytest.raises(OperationalError):
        runner.write(worker.pk, [outcome_of(run) for run in runs])

    assert set(Execution.objects.values_list("status", flat=True)) == {"running"}


@pytest.mark.django_db
def test_database_that_went_away_is_not_blamed_on_the_outcome(monkeypatch):
    worker = ClusterFactory()
    run = make_running(worker)
    monkeypatch.setattr(connection, "is_usable", lambda: False)

    with pytest.raises(TypeError):
        runner.write(worker.pk, [outcome_of(run, result={1})])


# The loop


@pytest.fixture
def worker(transactional_db: None) -> Cluster:
    return ClusterFactory()


@pytest.fixture
def loop(worker: Cluster) -> Iterator[WorkerLoop]:
    made = WorkerLoop(worker.pk)
    yield made
    _put_away(made)


def _put_away(loop: WorkerLoop) -> None:
    loop.clear(5)
    loop._thread.join(10)
    loop._writer.shutdown(wait=True)


@pytest.fixture
def process_bench(worker: Cluster) -> Iterator[None]:
    yield
    if WorkerLoop._current:
        _put_away(WorkerLoop._current)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        threading.Event().wait(0.005)


def status_of(run: Started) -> str:
    return Execution.objects.values_list("status", flat=True).get(pk=run.execution_id)


def test_chunk_runs_together_and_each_outcome_is_written(worker, loop):
    runs = [
        make_running(worker, JobFactory(task=name, args=args))
        for name, args in [
            ("tests.runner.agive", ["text"]),
            ("tests.runner.afail", ["final"]),
            ("tests.runner.afail", ["cancelled"]),
            ("tests.runner.afail", ["unspeakable"]),
            ("tests.runner.agive", ["waiting"]),
            ("tests.gone", []),
            ("tests.runner.slow", [0.01]),
        ]
    ]

    loop.take(runs)

    assert loop.clear(20)
    assert [status_of(run) for run in runs] == [
        "succeeded",
        "failed",
        "failed",
        "failed",
        "waiting",
        "failed",
        "succeeded",
    ]


def test_outcomes_are_written_without_being_asked_for(worker, loop):
    first, second = make_running(worker), make_running(worker)

    loop.add_outcome(outcome_of(first))
    loop.add_outcome(outcome_of(second))

    until(lambda: {status_of(first), status_of(second)} == {"succeeded"})
    assert not loop._finished


def test_in_a_burst_outcomes_are_written_between_runs(worker, loop, monkeypatch):
    run = make_running(worker)
    loop.write_if_due()
    monkeypatch.setattr(runner, "FLUSH_BURST_AFTER", 1000)
    loop.add_outcome(outcome_of(run))
    loop.write_if_due()
    assert status_of(run) == "running"

    loop._write_at = 0
    loop.write_if_due()

    assert status_of(run) == "succeeded"


def test_lease_of_what_runs_is_renewed(worker, loop, settings):
    settings.CRONTY_LEASE_SECONDS = 0.03
    _put_away(loop)
    loop.__init__(worker.pk)  # type: ignore[misc]
    plain, coroutine = make_running(worker), make_running(worker, JobFactory(task="tests.runner.slow"))
    idle = make_running(worker)
    loop.take([coroutine])

    def leases() -> dict[int, datetime]:
        return dict(Execution.objects.values_list("pk", "lease_until"))

    before = leases()
    with loop.holding(plain):
        until(
            lambda: all(leases()[run.execution_id] > before[run.execution_id] for run in (plain, coroutine))
        )

    assert leases()[idle.execution_id] == before[idle.execution_id]
    loop.clear(0)


def test_end_waits_only_so_long(worker, loop):
    run = make_running(worker, JobFactory(task="tests.runner.slow"))
    loop.take([run])

    assert loop.clear(0.05) is False
    assert loop.clear() is True
    loop._thread.join(10)
    # Whoever stops the cluster hands it back; a run cut short has no outcome of its own.
    assert status_of(run) == "running"


def test_loop_survives_a_task_that_breaks_out_of_it(worker, loop, caplog):
    rude = make_running(worker, JobFactory(task="tests.runner.breaks_out"))
    polite = make_running(worker, JobFactory(task="tests.runner.slow", args=[0.05]))

    loop.take([rude, polite])

    assert loop.clear(20)
    assert {status_of(rude), status_of(polite)} == {"succeeded"}
    assert "broke out of the loop" in caplog.text


@pytest.mark.parametrize("between_runs", [True, False])
def test_outcomes_outlast_a_database_that_is_away(worker, loop, monkeypatch, caplog, between_runs):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(runner, "RETRY_WRITE_AFTER", 0.01)
    settle, refusals = engine.settle_runs, [3]

    def away_for_a_while(cluster_id: int, outcomes: Any) -> int:
        if refusals[0]:
            refusals[0] -= 1
            raise OperationalError("the server closed the connection unexpectedly")
        return settle(cluster_id, outcomes)

    run = make_running(worker)
    monkeypatch.setattr(engine, "settle_runs", away_for_a_while)
    loop.add_outcome(outcome_of(run))
    if between_runs:
        loop._write_at = 0
        loop.write_if_due()
        assert status_of(run) == "running"

    until(lambda: status_of(run) == "succeeded")
    assert refusals == [0]


# What django-q2 calls


@pytest.mark.usefixtures("process_bench")
def test_run_starts_what_is_still_ours(worker):
    mine, other = (
        ExecutionFactory(job=JobFactory(task="tests.aping"), status="claimed", cluster=holder)
        for holder in (worker, ClusterFactory())
    )

    runner.run(worker.pk, 0, [mine.pk, other.pk])

    until(lambda: Execution.objects.get(pk=mine.pk).status == "succeeded")
    assert Execution.objects.get(pk=other.pk).status == "claimed"


@pytest.fixture
def lane_count() -> Iterator[int]:
    concurrency.open_lanes(1)
    yield 1
    concurrency.close_lanes()


@pytest.mark.usefixtures("process_bench", "lane_count")
@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("tests.ping", [1, 2], "succeeded"),
        ("tests.runner.fail", ["final"], "failed"),
        ("tests.runner.fail", ["exit"], "failed"),
        ("tests.runner.fail", ["rude"], "failed"),
        ("tests.gone", [], "failed"),
    ],
)
def test_run_in_turn_runs_and_writes(worker, name, args, expected):
    row = ExecutionFactory(job=JobFactory(task=name, args=args), status="claimed", cluster=worker)

    runner.run_in_turn(worker.pk, 0, [row.pk])

    until(lambda: Execution.objects.get(pk=row.pk).status == expected)
    assert Execution.objects.get(pk=row.pk).attempt == 1


@pytest.mark.usefixtures("process_bench", "lane_count")
def test_run_in_turn_hands_plain_runs_back_when_all_lanes_are_taken(worker, monkeypatch):
    monkeypatch.setattr(runner, "WAIT_FOR_LANE", 0)
    rows = [
        ExecutionFactory(job=JobFactory(task=name), status="claimed", cluster=worker)
        for name in ("tests.ping", "tests.ping", "tests.aping")
    ]

    with concurrency.lane(0):
        runner.run_in_turn(worker.pk, 0, [rows[0].pk])

    statuses = [Execution.objects.get(pk=row.pk).status for row in rows]
    assert statuses == ["queued", "queued", "claimed"]


@pytest.mark.usefixtures("process_bench", "lane_count")
def test_run_in_turn_does_nothing_for_a_claim_that_was_lost(worker):
    row = ExecutionFactory(status="cancelled", cluster=worker)

    runner.run_in_turn(worker.pk, 0, [row.pk])

    row.refresh_from_db()
    assert row.status == "cancelled"


@pytest.mark.usefixtures("process_bench", "lane_count")
def test_plain_functions_take_turns(worker):
    rows = [
        ExecutionFactory(job=JobFactory(task="tests.ping"), status="claimed", cluster=worker)
        for _ in range(3)
    ]

    runner.run_in_turn(worker.pk, 0, [row.pk for row in rows])

    until(lambda: Execution.objects.filter(status="succeeded").count() == 3)
    starts = [Execution.objects.get(pk=row.pk).started_at for row in rows]
    assert starts == sorted(starts)
    assert len(set(starts)) == 3


@pytest.mark.usefixtures("process_bench", "lane_count")
def test_what_waits_behind_a_long_function_is_let_go(worker, monkeypatch):
    monkeypatch.setattr(runner, "LET_GO_AFTER", 0.01)
    rows = [
        ExecutionFactory(
            job=JobFactory(task=name), status="claimed", cluster=worker, lease_until=clock.now() + HOUR
        )
        for name in ("tests.runner.until_alone", "tests.ping", "tests.ping")
    ]

    runner.run_in_turn(worker.pk, 0, [row.pk for row in rows])

    until(lambda: Execution.objects.get(pk=rows[0].pk).status == "succeeded")
    assert Execution.objects.get(pk=rows[0].pk).result == 2
    assert {Execution.objects.get(pk=row.pk).status for row in rows[1:]} == {"queued"}


def test_line_that_another_thread_shortens_is_drained_without_loss():
    class Shared(deque):
        def popleft(self):
            mine = super().popleft()
            if self:
                super().popleft()
            return mine

    assert list(runner._drained(Shared([1, 2, 3, 4, 5]))) == [1, 3, 5]


@pytest.mark.usefixtures("process_bench", "lane_count")
def test_each_that_takes_its_turn_has_its_own_time_limit(worker):
    rows = [
        ExecutionFactory(
            job=JobFactory(task=name, timeout=timedelta(seconds=1)), status="claimed", cluster=worker
        )
        for name in ("tests.runner.sleep", "tests.runner.sleep")
    ]

    for row in rows:
        runner.run_in_turn(worker.pk, 0, [row.pk])

    until(lambda: Execution.objects.filter(status="failed").count() == 2)
    assert set(Execution.objects.values_list("error", flat=True)) == {"Timed out after 1 seconds."}


@pytest.mark.usefixtures("process_bench")
def test_process_has_one_bench_for_each_cluster(worker):
    loop = WorkerLoop.of_this_process(worker.pk)
    assert WorkerLoop.of_this_process(worker.pk) is loop

    other = WorkerLoop.of_this_process(worker.pk + 1)

    assert other is not loop
    _put_away(loop)
    WorkerLoop._current = other
