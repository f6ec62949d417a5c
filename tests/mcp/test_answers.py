"""The warning about missing clusters, in the answers of every tool family."""

import pytest

from schedules import clock
from schedules.mcp.answers import NO_WORKER, is_worker_running
from schedules.models import Execution, Job, Profile
from tests.factories import ClusterFactory, JobFactory
from tests.mcp.agents import InMemory
from tests.mcp.examples import examples

GOOD = examples(Job(public_id="job_1"), Job(pk=1), Execution(pk=1))


def test_clusters_are_looked_up_once_per_second(db, monkeypatch, django_assert_num_queries):
    moment = [100.2]
    monkeypatch.setattr(clock, "steady", lambda: moment[0])
    with django_assert_num_queries(1):
        assert not any(is_worker_running() for _ in range(3))
    ClusterFactory()

    moment[0] += 1

    with django_assert_num_queries(1):
        assert all(is_worker_running() for _ in range(3))


@pytest.mark.parametrize(
    "name", ["schedule_job", "schedule", "schedule_notification", "schedule_cron_notification", "run_job"]
)
def test_answer_warns_if_no_cluster_is_running(caller, owner, name):
    JobFactory(owner=owner, public_id="job_1")
    # An agent takes prompts: they have no warning of their own.
    Profile.objects.filter(user=owner).update(prompts_asked_at=clock.now())

    assert NO_WORKER in str(InMemory("modern").call(name, **GOOD[name]))
