"""The version that pages poll: when it changes, what it costs, and how soon to ask again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, services
from schedules.models import Execution, Job
from schedules.services import Actor
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory

MINUTE = timedelta(minutes=1)


def version(client: Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/live/").json()
    return answer


@pytest.fixture
def job(owner: User) -> Job:
    return JobFactory(owner=owner, next_run_at=clock.now() + 10 * MINUTE)


CHANGES: dict[str, Callable[[Job], object]] = {
    "a run starts": lambda job: ExecutionFactory(job=job, status="running"),
    "a run ends": lambda job: Execution.objects.filter(job=job).update(
        status="failed", finished_at=clock.now()
    ),
    "a run is retried": lambda job: Execution.objects.filter(job=job).update(status="queued", attempt=1),
    "a job fires": lambda job: Job.objects.update(next_run_at=clock.now() + 20 * MINUTE),
    "somebody pauses a job": lambda job: services.pause(Actor(job.owner), job.public_id),
    "a cluster appears": lambda job: ClusterFactory(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_version_changes_when(web: Client, job: Job, change: Callable[[Job], object]):
    ExecutionFactory(job=job, status="waiting", scheduled_for=clock.now() - MINUTE)
    before = version(web)["version"]

    assert version(web)["version"] == before
    change(job)
    assert version(web)["version"] != before


def test_page_that_refreshes_itself_contains_its_version(web: Client, job: Job):
    for path in ["/", "/runs/", "/inbox/", "/notifications/", "/system/", "/jobs/{}/"]:
        page = web.get(path.format(job.public_id)).content.decode()

        assert f'data-version="{version(web)["version"]}"' in page


@pytest.mark.parametrize(
    ("due_in", "status", "soon"),
    [(59, "succeeded", True), (120, "succeeded", False), (120, "running", True), (120, "waiting", False)],
)
def test_page_asks_again_soon_while_something_is_due_or_running(
    web: Client, owner: User, due_in: int, status: str, soon: bool
):
    job = JobFactory(owner=owner, next_run_at=clock.now() + timedelta(seconds=due_in))
    ended = clock.now() if status == "succeeded" else None
    ExecutionFactory(job=job, status=status, finished_at=ended)

    assert version(web)["soon"] is soon
