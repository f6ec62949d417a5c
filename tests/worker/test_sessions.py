"""Database sessions of the engine, and those of tasks."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, transaction

from schedules import clock, engine
from schedules.models import Execution, Job
from schedules.worker import q2, sessions
from schedules.worker.context import ClusterContext
from schedules.worker.leader import executing_durably
from schedules.worker.locks import Permits
from schedules.worker.sessions import engine_settings, project_session, use_engine_session
from tests.factories import ClusterFactory, JobFactory
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

only_on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has neither a server nor locks of rows"
)


def in_engine_session(step: Callable[[], Any]) -> Any:
    """Run a step in a thread with an engine session, as the threads of a worker do."""

    def run() -> Any:
        try:
            return step()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1, initializer=use_engine_session) as thread:
        return thread.submit(run).result()


def show(*names: str) -> list[str]:
    with connection.cursor() as cursor:
        values = []
        for name in names:
            cursor.execute(f"SHOW {name}")
            values += cursor.fetchone()
        return values


@only_on_postgresql
def test_server_bounds_what_an_engine_session_waits_for():
    names = ("lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")

    assert in_engine_session(lambda: show(*names)) == ["2s", "8s", "off"]


@only_on_postgresql
def test_engine_session_never_plans_to_read_a_whole_table():
    joined = (
        "EXPLAIN (COSTS OFF) UPDATE schedules_job SET name = given.name"
        " FROM unnest('{1,2}'::bigint[], '{a,b}'::text[]) AS given(id, name) WHERE schedules_job.id = given.id"
    )

    def plan() -> str:
        with connection.cursor() as cursor:
            cursor.execute(joined)
            return "\n".join(line for (line,) in cursor.fetchall())

    # Either an index scan or a bitmap of the index: which of the two depends on what ANALYZE has last seen.
    planned = in_engine_session(plan)
    assert "schedules_job_pkey" in planned
    assert "Seq Scan" not in planned
    assert in_engine_session(lambda: show("plan_cache_mode")) == ["force_generic_plan"]


def test_task_has_a_session_with_the_settings_of_the_project():
    def settings_seen() -> list[dict[str, Any]]:
        seen = [connection.settings_dict]
        with project_session():
            seen.append(connection.settings_dict)
            Job.objects.exists()
            connection.close()
        return [*seen, connection.settings_dict]

    engines, projects, after = in_engine_session(settings_seen)

    assert projects == connection.settings_dict
    assert engines == after == engine_settings(connection.settings_dict, connection.vendor)
    assert engines["OPTIONS"] != projects["OPTIONS"]


@only_on_postgresql
@pytest.mark.parametrize("is_pooled", [False, True])
def test_options_of_the_project_stay(is_pooled):
    own = {"options": "-c search_path=jobs", "tcp_user_timeout": 1, "pool": True}
    database = connection.settings_dict | {"OPTIONS": own, "DISABLE_SERVER_SIDE_CURSORS": is_pooled}

    options = engine_settings(database, "postgresql")["OPTIONS"]

    assert options["options"].endswith("-c search_path=jobs")
    # A pooler refuses other options.
    assert ("lock_timeout" in options["options"]) is not is_pooled
    assert options["tcp_user_timeout"] == 1
    assert options["keepalives_idle"] == 5
    assert "pool" not in options


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL waits in the statement that starts runs"
)
@pytest.mark.parametrize(("own", "level"), [("FULL", 2), ("NORMAL", 1)])
def test_only_a_worker_that_starts_runs_waits_for_the_disk(monkeypatch, own, level):
    """A power cut could undo the record of a run that was already delivered, and then it was delivered again."""
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "init_command", f"PRAGMA synchronous={own}")
    seen: list[int] = []

    def look(*arguments: Any) -> None:
        with connection.cursor() as cursor:
            seen.append(cursor.execute("PRAGMA synchronous").fetchone()[0])

    def work_in_a_fork_of_the_leader() -> None:
        use_engine_session()
        look()
        context = ClusterContext(ClusterFactory().pk, Permits(1))
        q2.run_worker(partial(executing_durably, context), 0)
        with project_session():
            assert connection.settings_dict == project
            connections.close_all()
        context.close()
        connections.close_all()

    project = connection.settings_dict
    monkeypatch.setattr(q2, "worker", look)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work_in_a_fork_of_the_leader).result()

    assert seen == [1, level]


def test_bare_settings_of_another_project_are_enough():
    database = {"OPTIONS": {}, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}

    settings = engine_settings(database, connection.vendor)

    assert settings["CONN_MAX_AGE"] > 0
    assert database == {"OPTIONS": {}, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}


@only_on_postgresql
def test_jobs_of_a_host_that_is_lost_in_the_middle_of_a_claim_run_elsewhere(monkeypatch):
    """They did not run anywhere until the lost host came back."""
    monkeypatch.setattr(sessions, "LOST_AFTER", 8)
    lost, other = ClusterFactory(), ClusterFactory()
    job = JobFactory(once=True, run_at=clock.now())
    has_claimed, must_end = threading.Event(), threading.Event()

    def freeze_in_a_claim() -> None:
        with transaction.atomic():
            assert engine.claim_runs(lost.pk, clock.now(), 10)
            has_claimed.set()
            must_end.wait(2 * PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(in_engine_session, freeze_in_a_claim)
        assert has_claimed.wait(PATIENCE)
        assert not engine.claim_runs(other.pk, clock.now(), 10)

        wait_for(lambda: engine.claim_runs(other.pk, clock.now(), 10))
        must_end.set()

        assert isinstance(frozen.exception(), DatabaseError)
    assert Execution.objects.get(job=job).cluster == other


@only_on_postgresql
def test_held_row_of_an_owner_delays_only_that_owners_jobs():
    """A ledger row refers to its owner: the claim waited for the lock, and no job of anybody was claimed."""
    cluster = ClusterFactory()
    held, free = (JobFactory(once=True, run_at=clock.now()) for _ in range(2))

    with transaction.atomic():
        User.objects.select_for_update().get(pk=held.owner_id)
        claims = in_engine_session(lambda: engine.claim_runs(cluster.pk, clock.now(), 10))

    assert [claim.execution_id for claim in claims] == [Execution.objects.get(job=free).pk]
    assert [
        Execution.objects.get(pk=claim.execution_id).job
        for claim in engine.claim_runs(cluster.pk, clock.now(), 10)
    ] == [held]
