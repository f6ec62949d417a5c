"""What a worker does with its packages."""

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django_q.exceptions import TimeoutException

from schedules import clock, engine
from schedules.models import Cluster, Execution
from schedules.tasks.interface import Final
from schedules.tasks.registry import task
from schedules.worker import loop as loop_module
from schedules.worker import packages, sessions
from schedules.worker.context import ClusterContext
from schedules.worker.locks import Permits
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.waiting import PATIENCE, wait_for

HOUR = timedelta(hours=1)


class OddError(BaseException):
    """Derives from BaseException, not from Exception."""


ERRORS: dict[str, BaseException] = {"final": Final("never again"), "exit": SystemExit(3), "odd": OddError()}


@task("tests.runner.fail")
def fail(name: str) -> None:
    raise ERRORS[name]


@task("tests.runner.until_others_are_released")
def until_others_are_released() -> int:
    """Wait until the other executions have been released; return their number."""
    wait_for(lambda: Execution.objects.filter(status="claimed").count() == 0)
    return Execution.objects.filter(status="queued", cluster=None).count()


@task("tests.runner.until_others_are_queued")
def until_others_are_queued() -> None:
    wait_for(lambda: Execution.objects.filter(status="queued", cluster=None).count() == 2)


@task("tests.runner.count_claimed")
def count_claimed() -> int:
    """Return how many executions have not been started yet."""
    return Execution.objects.filter(status="claimed").count()


@task("tests.runner.brief")
async def brief() -> None:
    await asyncio.sleep(0.3)


@task("tests.runner.sleep")
def sleep_long() -> None:
    time.sleep(10)  # noqa: TID251


@pytest.fixture
def cluster(transactional_db: None) -> Cluster:
    return ClusterFactory()


@pytest.fixture(autouse=True)
def context(cluster: Cluster) -> Iterator[ClusterContext]:
    """Make this process a worker of the cluster, with one permit."""
    made = ClusterContext(cluster.pk, Permits(1))
    with packages.executing(made) as loop:
        yield made
    loop._thread.join(PATIENCE)
    loop.outcomes.thread.join(PATIENCE)
    loop.leases.executor.shutdown(wait=True)
    made.close()


def test_only_executions_claimed_by_this_cluster_are_started(cluster):
    mine, other = (
        ExecutionFactory(job=JobFactory(task="tests.aping"), status="claimed", cluster=holder)
        for holder in (cluster, ClusterFactory())
    )

    packages.run_coroutines(0, [mine.pk, other.pk])

    wait_for(lambda: Execution.objects.get(pk=mine.pk).status == "succeeded")
    assert Execution.objects.get(pk=other.pk).status == "claimed"


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("tests.ping", [1, 2], "succeeded"),
        ("tests.runner.fail", ["final"], "failed"),
        ("tests.runner.fail", ["exit"], "failed"),
        ("tests.runner.fail", ["odd"], "failed"),
        ("tests.gone", [], "failed"),
    ],
)
def test_plain_function_runs_and_its_outcome_is_written(cluster, name, args, expected):
    row = ExecutionFactory(job=JobFactory(task=name, args=args), status="claimed", cluster=cluster)

    packages.run_plain_functions(0, [row.pk])

    wait_for(lambda: Execution.objects.get(pk=row.pk).status == expected)
    assert Execution.objects.get(pk=row.pk).attempt == 1


def test_execution_whose_claim_was_lost_is_not_run(cluster):
    row = ExecutionFactory(status="cancelled", cluster=cluster)

    packages.run_plain_functions(0, [row.pk])

    row.refresh_from_db()
    assert row.status == "cancelled"


def test_plain_functions_of_a_package_run_sequentially(cluster, monkeypatch):
    monkeypatch.setattr(loop_module, "RELEASE_AFTER", 60)
    rows = [
        ExecutionFactory(job=JobFactory(task="tests.ping"), status="claimed", cluster=cluster)
        for _ in range(3)
    ]

    packages.run_plain_functions(0, [row.pk for row in rows])

    wait_for(lambda: Execution.objects.filter(status="succeeded").count() == 3)
    starts = [Execution.objects.get(pk=row.pk).started_at for row in rows]
    assert starts == sorted(starts)
    assert len(set(starts)) == 3


@pytest.mark.parametrize(("attempt", "unstarted"), [(0, [2, 0, 0]), (1, [2, 1, 0])])
def test_functions_after_a_quick_one_are_started_together_at_their_first_attempt(
    cluster, monkeypatch, attempt, unstarted
):
    monkeypatch.setattr(loop_module, "TOGETHER_WITHIN", 60)
    monkeypatch.setattr(loop_module, "RELEASE_AFTER", 60)
    job = {"task": "tests.runner.count_claimed"}
    rows = [
        ExecutionFactory(job=JobFactory(**job), status="claimed", cluster=cluster, attempt=attempt)
        for _ in range(3)
    ]

    packages.run_plain_functions(attempt, [row.pk for row in rows])

    wait_for(lambda: Execution.objects.filter(status="succeeded").count() == 3)
    assert [Execution.objects.get(pk=row.pk).result for row in rows] == unstarted


def test_executions_started_together_with_a_long_function_are_queued_again(cluster, monkeypatch):
    monkeypatch.setattr(loop_module, "TOGETHER_WITHIN", 60)
    quick, *rows = (
        ExecutionFactory(
            job=JobFactory(task=name), status="claimed", cluster=cluster, lease_until=clock.now() + HOUR
        )
        for name in ("tests.ping", "tests.runner.until_others_are_queued", "tests.ping", "tests.ping")
    )
    packages.run_plain_functions(0, [quick.pk])
    monkeypatch.setattr(loop_module, "RELEASE_AFTER", 1)

    packages.run_plain_functions(0, [row.pk for row in rows])

    wait_for(lambda: Execution.objects.filter(status="succeeded").count() == 2)
    waiting = Execution.objects.filter(status="queued").values_list("pk", "attempt", "started_at", "lateness")
    assert sorted(waiting) == [(row.pk, 0, None, None) for row in rows[1:]]


def test_executions_behind_a_long_function_are_released(cluster, monkeypatch):
    monkeypatch.setattr(loop_module, "RELEASE_AFTER", 1)
    rows = [
        ExecutionFactory(
            job=JobFactory(task=name), status="claimed", cluster=cluster, lease_until=clock.now() + HOUR
        )
        for name in ("tests.runner.until_others_are_released", "tests.ping", "tests.ping")
    ]

    packages.run_plain_functions(0, [row.pk for row in rows])

    wait_for(lambda: Execution.objects.get(pk=rows[0].pk).status == "succeeded")
    assert Execution.objects.get(pk=rows[0].pk).result == 2
    assert {Execution.objects.get(pk=row.pk).status for row in rows[1:]} == {"queued"}


@pytest.mark.parametrize(
    ("step", "within"), [("release_claims", 0), ("release_uncalled", 60)], ids=["claimed", "started"]
)
def test_release_is_tried_again_after_the_database_was_away(cluster, monkeypatch, step, within):
    monkeypatch.setattr(loop_module, "TOGETHER_WITHIN", within)
    quick, *rows = (
        ExecutionFactory(
            job=JobFactory(task=name), status="claimed", cluster=cluster, lease_until=clock.now() + HOUR
        )
        for name in ("tests.ping", "tests.runner.until_others_are_queued", "tests.ping", "tests.ping")
    )
    packages.run_plain_functions(0, [quick.pk])
    release, errors = getattr(engine, step), [OperationalError("the database is away")]

    def fail_once(*args):
        if errors:
            raise errors.pop()
        return release(*args)

    monkeypatch.setattr(engine, step, fail_once)

    packages.run_plain_functions(0, [row.pk for row in rows])

    wait_for(lambda: Execution.objects.filter(status="succeeded").count() == 2)
    assert errors == []
    assert {Execution.objects.get(pk=row.pk).status for row in rows[1:]} == {"queued"}


def test_each_plain_function_has_its_own_time_limit(cluster):
    rows = [
        ExecutionFactory(
            job=JobFactory(task=name, timeout=timedelta(seconds=1)), status="claimed", cluster=cluster
        )
        for name in ("tests.runner.sleep", "tests.runner.sleep")
    ]

    for row in rows:
        packages.run_plain_functions(0, [row.pk])

    wait_for(lambda: Execution.objects.filter(status="failed").count() == 2)
    assert set(Execution.objects.values_list("error", flat=True)) == {"Timed out after 1 seconds."}


@pytest.mark.parametrize("run", [packages.run_coroutines, packages.run_commands])
def test_worker_whose_loop_is_stuck_starts_nothing_and_is_replaced(
    cluster, context, monkeypatch, caplog, run
):
    monkeypatch.setattr(loop_module.WorkerLoop, "is_stuck", True)
    row = ExecutionFactory(
        job=JobFactory(task="tests.aping"), status="claimed", cluster=cluster, lease_until=clock.now() + HOUR
    )

    run(0, [row.pk])

    row.refresh_from_db()
    assert (row.status, row.attempt, row.cluster) == ("queued", 0, None)
    with pytest.raises(TimeoutException):
        packages.probe(clock.now().timestamp())
    assert "blocks its worker" in caplog.text


def test_probe_opens_the_session_of_a_worker_and_starts_nothing(cluster):
    row = ExecutionFactory(job=JobFactory(task="tests.ping"), status="claimed", cluster=cluster)
    connection.close()

    packages.probe(clock.now().timestamp())

    used = connection.connection
    assert used is not None
    row.refresh_from_db()
    assert (row.status, row.attempt) == ("claimed", 0)


def test_probe_opens_a_new_session_before_the_last_one_is_too_old():
    loop, first = packages._this_loop(), connection.connection
    assert first is not None, "the worker did not open a session when it began"
    assert loop.renew_session_at - packages.RENEW_SESSION_AFTER < time.monotonic() < loop.renew_session_at
    assert packages.RENEW_SESSION_AFTER < sessions.KEEP_CONNECTION
    packages.probe(clock.now().timestamp())
    assert connection.connection is first

    loop.renew_session_at = time.monotonic()
    packages.probe(clock.now().timestamp())
    assert connection.connection is not first

    # As after an error, or with a project whose sessions end sooner.
    connection.close()
    packages.probe(clock.now().timestamp())
    assert connection.connection is not None


def test_probe_records_when_it_was_sent(cluster):
    sent_at = clock.now() - HOUR

    packages.probe(sent_at.timestamp())

    cluster.refresh_from_db()
    assert cluster.probe_returned_at == sent_at


def test_probe_returns_while_the_database_is_away(cluster, context, monkeypatch):
    def fail(*_: object) -> None:
        raise OperationalError("the server is away")

    connection.close()
    monkeypatch.setattr(engine, "start_runs", fail)
    monkeypatch.setattr(engine, "probe_returned", fail)
    before = context.pulses["probe"]

    packages.probe(clock.now().timestamp())

    assert context.pulses["probe"] == before + 1


def test_executions_in_progress_finish_before_the_worker_ends(cluster):
    """A worker process ends at the end of this block: executions in progress must not be interrupted."""
    rows = [
        ExecutionFactory(job=JobFactory(task=name), status="claimed", cluster=cluster)
        for name in ("tests.runner.brief", "tests.ping")
    ]
    context = ClusterContext(cluster.pk, Permits(1))

    with packages.executing(context) as loop:
        packages.run_coroutines(0, [rows[0].pk])
        packages.run_plain_functions(0, [rows[1].pk])
    loop.outcomes.thread.join(PATIENCE)
    loop.leases.executor.shutdown(wait=True)
    context.close()

    assert list(Execution.objects.values_list("status", "attempt")) == [("succeeded", 1)] * 2


def test_only_a_worker_runs_executions(monkeypatch):
    monkeypatch.setattr(packages, "_loop", None)

    with pytest.raises(AssertionError, match="only a worker of a cluster"):
        packages.run_coroutines(0, [1])
