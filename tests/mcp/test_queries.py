"""How often does a call ask the database? Every question is waited for, so none may come back unnoticed."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from schedules.services import Actor
from tests.factories import ExecutionFactory, JobFactory

WEBHOOK = {
    "name": "Ping",
    "task": "webhook",
    "kwargs": {"url": "https://example.org"},
    "trigger_type": "cron",
    "trigger_config": {"expression": "30 8 * * 1-5"},
}
# What is counted is questions and changes, not where a transaction begins and ends.
BRACKETS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
# On PostgreSQL those who create jobs at once queue up behind one row; on SQLite they do anyway.
LOCK = int(connection.features.has_select_for_update)

JOB = {"job_id": "job_1_0"}
CALLS: dict[str, tuple[dict[str, Any], int]] = {
    "job_status": (JOB, 2),
    "why": (JOB, 4),
    "get_current_time": ({}, 1),
    "preview_schedule": ({"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}, 1),
    "cancel_job": (JOB, 8),
    "pause_job": (JOB, 8),
    "run_job": (JOB, 6),
    "update_job": (JOB | {"name": "Other"}, 7),
    "upcoming": ({}, 3),
}


@pytest.fixture
def queries(call: Callable[..., Any]) -> Callable[..., int]:
    """Call a tool and count what it asked."""

    def count(name: str, /, **arguments: Any) -> int:
        with CaptureQueriesContext(connection) as asked:
            answer = call(name, **arguments)
        assert "error" not in answer or answer["error"] is None
        return sum(not query["sql"].startswith(BRACKETS) for query in asked)

    return count


@pytest.fixture(params=[0, 120], ids=["few rows", "many rows"])
def rows(request: pytest.FixtureRequest, agent: Actor) -> int:
    """Olga's job with a run, and perhaps many more of both."""
    count = int(request.param)
    job = JobFactory(owner=agent.user, public_id="job_1_0")
    ExecutionFactory(job=job)
    for other in JobFactory.create_batch(count, owner=agent.user):
        ExecutionFactory(job=other)
    return count


@pytest.mark.parametrize("name", CALLS)
def test_call_asks_the_same_however_much_there_is(rows, queries, name):
    arguments, asked = CALLS[name]

    assert queries(name, **arguments) == asked


@pytest.mark.parametrize("arguments", [{}, {"status": "pending", "limit": 10}])
def test_list_takes_one_query_for_the_page_and_one_for_the_total(rows, queries, arguments):
    assert queries("list_jobs", **arguments) == 2


def test_scheduling_asks_the_same_however_much_there_is(rows, unlimited, queries):
    # The profile, a twin, two quotas, the job, its event, and whether a worker is running.
    assert queries("schedule_job", **WEBHOOK) == 7 + LOCK
