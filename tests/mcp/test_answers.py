"""The warning about missing clusters, in the answers of every tool family."""

from datetime import timedelta
from typing import Any

import pytest

from schedules import clock
from schedules.mcp.answers import NO_WORKER, is_worker_running
from schedules.models import Execution, Job, Profile
from tests.factories import ClusterFactory, JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.examples import examples

GOOD = examples(Job(public_id="job_1"), Job(pk=1), Execution(pk=1))
every_tool_that_needs_a_cluster = pytest.mark.parametrize(
    "name", ["schedule_job", "schedule", "schedule_notification", "schedule_cron_notification", "run_job"]
)


@pytest.fixture
def warning_of(caller, owner):
    """Return a function that makes a valid call on Olga's only job and returns the warning."""
    JobFactory(owner=owner, public_id="job_1")
    # An agent takes prompts: they have no warning of their own.
    Profile.objects.filter(user=owner).update(prompts_asked_at=clock.now())

    def call(name: str) -> Any:
        answer = InMemory("modern").call(name, **GOOD[name])
        if isinstance(answer, str):
            assert answer.startswith("Scheduled task #")
            return answer.partition("\nwarning: ")[2] or None
        assert answer.get("error") is None
        return answer.get("warning")

    return call


def test_clusters_are_looked_up_once_per_second(db, monkeypatch, django_assert_num_queries):
    moment = [100.2]
    monkeypatch.setattr(clock, "steady", lambda: moment[0])
    with django_assert_num_queries(1):
        assert not any(is_worker_running() for _ in range(3))
    ClusterFactory()

    moment[0] += 1

    with django_assert_num_queries(1):
        assert all(is_worker_running() for _ in range(3))


@every_tool_that_needs_a_cluster
def test_answer_warns_if_no_cluster_is_running(warning_of, name):
    assert warning_of(name) == NO_WORKER


@every_tool_that_needs_a_cluster
def test_answer_warns_if_no_cluster_was_seen_for_an_hour(warning_of, name):
    ClusterFactory(last_seen_at=clock.now() - timedelta(hours=1))

    assert warning_of(name) == NO_WORKER


@every_tool_that_needs_a_cluster
def test_answer_has_no_warning_while_a_cluster_is_running(warning_of, cluster, name):
    assert warning_of(name) is None
