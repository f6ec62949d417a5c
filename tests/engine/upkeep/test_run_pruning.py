"""Pruning of finished runs in small steps, while clusters work."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules import engine
from schedules.engine.upkeep import prune
from schedules.engine.upkeep.prune import RunPruner
from schedules.models import Execution
from tests.engine.conftest import NOW, new_cluster
from tests.factories import ExecutionFactory, JobFactory, UserFactory

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def limits(settings, monkeypatch):
    settings.CRONTY_HISTORY_DAYS, settings.CRONTY_HISTORY_PER_JOB = 10, 5
    settings.CRONTY_HISTORY_PER_PERSON = 12
    monkeypatch.setattr(prune, "RUNS_AT_ONCE", 2)
    monkeypatch.setattr(prune, "COUNT_ROWS", 3)
    monkeypatch.setattr(prune, "SELECT_ROWS", 3)
    monkeypatch.setattr(prune, "SLACK", 1)


@pytest.fixture
def pruner() -> RunPruner:
    return RunPruner(new_cluster(last_seen_at=NOW + timedelta(minutes=1)).pk)


def hours_kept(**fields) -> list[int]:
    rows = Execution.objects.filter(**fields).order_by("-scheduled_for")
    return [round((NOW - row.scheduled_for) / HOUR) for row in rows]


def test_new_runs_push_out_the_oldest_of_their_job(pruner):
    job, other = JobFactory(), JobFactory()
    for hours in range(9):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)
    ExecutionFactory(job=other, scheduled_for=NOW - 9 * HOUR)

    assert sum(pruner.prune(NOW)) == 4
    assert hours_kept(job=job) == [0, 1, 2, 3, 4]
    assert hours_kept(job=other) == [9]

    ExecutionFactory(job=job, scheduled_for=NOW + HOUR)

    assert sum(pruner.prune(NOW)) == 1
    assert hours_kept(job=job) == [-1, 0, 1, 2, 3]


def test_new_runs_push_out_the_oldest_of_their_owner(pruner, owner):
    for hours in range(16):
        ExecutionFactory(job=JobFactory(owner=owner), scheduled_for=NOW - hours * HOUR)
    ExecutionFactory(job=JobFactory(owner=UserFactory()), scheduled_for=NOW - 99 * HOUR)

    sum(pruner.prune(NOW))

    assert hours_kept(owner=owner) == list(range(12))
    assert Execution.objects.exclude(owner=owner).count() == 1


def test_runs_older_than_the_history_are_pruned_once_a_minute(pruner):
    job = JobFactory()
    for days in (9, 11):
        ExecutionFactory(job=job, scheduled_for=NOW - days * DAY)
    ExecutionFactory(
        job=job, scheduled_for=NOW - 30 * DAY, last_slot=NOW - 9 * DAY, slots=9, status="skipped"
    )

    assert sum(pruner.prune(NOW)) == 1

    ExecutionFactory(job=JobFactory(), scheduled_for=NOW - 12 * DAY)
    assert sum(pruner.prune(NOW + timedelta(seconds=59))) == 0
    assert sum(pruner.prune(NOW + timedelta(seconds=60))) == 1
    # A clock that was set back does not put it off.
    ExecutionFactory(job=JobFactory(), scheduled_for=NOW - 12 * DAY)
    assert sum(pruner.prune(NOW - HOUR)) == 1


@pytest.mark.parametrize("status", ["queued", "claimed", "running", "waiting"])
def test_unfinished_runs_are_never_pruned(pruner, owner, status):
    job = JobFactory(owner=owner)
    live = [
        ExecutionFactory(job=job, scheduled_for=NOW - days * DAY, status=status, cause="manual")
        for days in range(1, 21)
    ]
    for hours in range(20):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)

    sum(pruner.prune(NOW))

    assert Execution.objects.filter(pk__in=[row.pk for row in live]).count() == 20
    assert Execution.objects.filter(status="succeeded").count() == 5


def test_gap_that_reaches_into_the_kept_history_is_kept(pruner):
    job = JobFactory()
    gap = ExecutionFactory(
        job=job, scheduled_for=NOW - 9 * HOUR, last_slot=NOW - 2 * HOUR, slots=7, status="missed"
    )
    for hours in range(8):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)

    sum(pruner.prune(NOW))

    assert Execution.objects.filter(pk=gap.pk).exists()
    assert hours_kept(job=job) == [0, 1, 2, 3, 4, 9]


def test_pruning_that_was_stopped_goes_on_the_next_time(pruner):
    job = JobFactory()
    for hours in range(12):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)

    for deleted in pruner.prune(NOW):
        if deleted:
            break

    assert Execution.objects.count() == 10
    sum(pruner.prune(NOW))
    assert hours_kept(job=job) == [0, 1, 2, 3, 4]


def test_job_is_visited_once_it_has_enough_new_runs(pruner, monkeypatch):
    monkeypatch.setattr(prune, "SLACK", 4)
    job = JobFactory()
    for hours in range(9):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)
    sum(pruner.prune(NOW))

    for minutes, deleted in ((1, 0), (2, 0), (3, 0), (4, 4)):
        ExecutionFactory(job=job, scheduled_for=NOW + timedelta(minutes=minutes))
        assert sum(pruner.prune(NOW)) == deleted


def test_only_the_oldest_cluster_that_is_alive_prunes(pruner):
    second = RunPruner(new_cluster(last_seen_at=NOW + HOUR).pk)
    ExecutionFactory(scheduled_for=NOW - 11 * DAY)

    assert sum(second.prune(NOW)) == 0
    assert sum(second.prune(NOW + HOUR)) == 1


def test_pruning_is_cheap_when_there_is_nothing_to_prune(pruner, django_assert_max_num_queries):
    job = JobFactory()
    for hours in range(4):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)
    sum(pruner.prune(NOW))

    # Whether it is its turn, and which rows are new.
    with django_assert_max_num_queries(2):
        assert list(pruner.prune(NOW)) == []


def test_nightly_pruning_keeps_to_the_limit_of_an_owner(owner, time_machine):
    time_machine.move_to(NOW, tick=False)
    for hours in range(14):
        ExecutionFactory(job=JobFactory(owner=owner), scheduled_for=NOW - hours * HOUR)

    assert engine.prune_history()["executions"] == 2
    assert hours_kept(owner=owner) == list(range(12))


def test_every_query_of_a_step_uses_an_index(pruner, owner):
    job = JobFactory(owner=owner)
    for hours in range(14):
        ExecutionFactory(job=job, scheduled_for=NOW - hours * HOUR)
    with CaptureQueriesContext(connection) as queries:
        sum(pruner.prune(NOW))
    statements = [query["sql"] for query in queries if "schedules_execution" in query["sql"]]

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Its planner prefers to read small tables as a whole, and to sort the few rows it finds.
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
        plans = {}
        for statement in statements:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' * (connection.vendor == 'sqlite')}{statement}")
            plans[statement] = "\n".join(str(row[-1]) for row in cursor.fetchall())

    assert len(statements) > 5
    for statement, plan in plans.items():
        assert "Seq Scan" not in plan, statement
        assert "Sort" not in plan, statement
        assert "TEMP B-TREE" not in plan, statement
        # SQLite does not name the key of the table itself.
        assert "USING" in plan or "Index" in plan or "ORDER BY 1 DESC LIMIT 1" in statement, statement
