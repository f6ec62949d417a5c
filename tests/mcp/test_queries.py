"""Query counts of tool calls: each query adds latency, so an additional one must fail a test."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import clock
from schedules.models import Profile
from schedules.services import Actor
from tests.factories import ExecutionFactory, JobFactory

# Statements that only begin or end a transaction are not counted.
RECEIVERS = '"schedules_channel"'
BRACKETS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
# On PostgreSQL the profile of the owner is locked first; SQLite has a single writer anyway.
LOCK = int(connection.features.has_select_for_update)

JOB = {"job_id": "job_1_0"}
CALLS: dict[str, tuple[dict[str, Any], int]] = {
    "job_status": (JOB, 4),
    "why": (JOB, 4),
    "get_current_time": ({}, 0),
    "preview_schedule": ({"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}, 1),
    "cancel_job": (JOB, 5),
    "pause_job": (JOB, 4),
    "pause_schedule": ({"schedule_id": "job_1_0"}, 4),
    "delete_schedule": ({"schedule_id": "job_1_0"}, 5),
    "run_job": (JOB, 5 + LOCK),
    "update_job": (JOB | {"name": "Other"}, 5),
    "skip_runs": (JOB, 4),
    "upcoming": ({}, 3),
    "list_scheduled_notifications": ({}, 1),
}


@pytest.fixture
def queries(call: Callable[..., Any]) -> Callable[..., int]:
    """Return a function that calls a tool and counts its queries, after the one that reads user and profile.

    Not counted are whether a cluster is running, which is asked once per second, and who receives events of a change,
    which is asked once per change.
    """

    def count(name: str, /, **arguments: Any) -> int:
        with CaptureQueriesContext(connection) as asked:
            answer = call(name, **arguments)
        assert "error" not in answer or answer["error"] is None
        first, *others = (query["sql"] for query in asked)
        assert "is_active" in first
        assert sum(RECEIVERS in statement for statement in others) <= 1
        return sum(
            not statement.startswith(BRACKETS)
            and "schedules_cluster" not in statement
            and RECEIVERS not in statement
            for statement in others
        )

    return count


@pytest.fixture(params=[0, 120], ids=["few rows", "many rows"])
def rows(request: pytest.FixtureRequest, agent: Actor) -> int:
    """Olga's job with a run, and possibly many more of both."""
    count = int(request.param)
    job = JobFactory(owner=agent.user, public_id="job_1_0")
    ExecutionFactory(job=job)
    for other in JobFactory.create_batch(count, owner=agent.user):
        ExecutionFactory(job=other)
    return count


def test_query_count_of_a_call_does_not_grow_with_the_rows(rows, queries):
    counted = {}
    for name, (arguments, _) in CALLS.items():
        with transaction.atomic():
            counted[name] = queries(name, **arguments)
            transaction.set_rollback(True)

    assert counted == {name: count for name, (_, count) in CALLS.items()}


def test_list_of_jobs_takes_one_query_for_the_page_with_its_total_and_one_for_its_runs(rows, queries):
    assert queries("list_jobs") == 2
    # Three more: for due prompts that no agent has claimed, for what quiet hours hold, and for the keys of the page.
    assert queries("list_jobs", status="pending", limit=10) == 5


def test_list_of_prompts_takes_one_query_for_those_due_and_one_for_those_ahead(rows, queries):
    assert queries("schedule_list") == 2
    assert queries("schedule_list", status="paused") == 1


def test_only_a_reference_that_is_no_public_id_takes_another_query(rows, queries, owner):
    job = owner.cronty_jobs.get(public_id="job_1_0")
    by_id = queries("job_status", **JOB)

    assert queries("job_status", job_id=" job_1_0 ") == by_id
    assert queries("job_status", job_id=f"#{job.pk}") == by_id + 1


def test_prompt_is_found_by_its_number_in_one_query(rows, queries, agent):
    prompt = JobFactory(owner=agent.user, task="prompt", kwargs={"prompt": "Check the build"})

    # The job, and again to lock it; the update, questions to close, runs to withdraw, and its event.
    assert queries("schedule_cancel", id=prompt.pk) == 6


def test_prompt_is_claimed_and_completed_with_few_queries(rows, queries, agent):
    job = JobFactory(owner=agent.user, task="prompt", kwargs={"prompt": "Check the build"})
    run = ExecutionFactory(job=job, task="prompt", status="waiting")
    # Remembered once an hour.
    Profile.objects.filter(user=agent.user).update(prompts_asked_at=clock.now())

    # Whether agents are stopped, the prompt with its job, its lease, and whether they were stopped meanwhile.
    assert queries("claim_prompts") == 4
    # The prompt, its end and its event. On SQLite, runs that waited for it and jobs that follow it, which the engine
    # asks for by statements that are not counted on PostgreSQL; there, the lock of its job.
    assert queries("complete_prompt", execution_id=run.pk) == (4 if LOCK else 5)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server to lose")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("unlimited")
def test_call_works_after_the_database_ended_its_connection(call):
    call("list_jobs")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [mine] = cursor.fetchone()
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [mine])
    other.close()

    assert call("list_jobs")["total"] == 0
