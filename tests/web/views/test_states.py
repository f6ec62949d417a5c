"""States of jobs on the pages, in small and large lists."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Execution, Job
from schedules.web.views import states
from tests.factories import ExecutionFactory, JobFactory
from tests.models.test_jobs import RUNS
from tests.web.views.test_jobs import in_every_state


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_stopped_job_is_shown_as_stopped_while_its_last_run_continues(owner: User, status: str):
    job = JobFactory(owner=owner, status=status, next_run_at=None)
    ExecutionFactory(job=job, status="running")

    [shown] = states.named(states.with_rank(Job.objects.all(), clock.now()))

    assert shown.standing == status  # type: ignore[attr-defined]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_pages_and_tools_agree_on_whether_a_job_is_running(owner: User, run: dict[str, Any] | None):
    job = JobFactory(owner=owner)
    if run:
        ExecutionFactory(job=job, **run)

    [shown] = states.named(states.with_rank(Job.objects.with_activity(), clock.now()))

    assert (shown.standing == "running") is (shown.state == "running")  # type: ignore[attr-defined]


def test_job_whose_last_run_is_under_way_is_running_even_if_it_has_failed_before(owner: User):
    JobFactory(owner=owner, status="running", next_run_at=None, failure_streak=2)

    [shown] = states.named(states.with_rank(Job.objects.all(), clock.now()))

    assert shown.standing == "running"  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("name", states.STANDINGS)
def test_segments_of_a_standing_have_its_jobs(owner: User, name: str, is_long: bool):
    in_every_state(owner)
    ExecutionFactory(job=JobFactory(owner=owner, status="running", next_run_at=None), status="waiting")
    now, runs = clock.now(), Execution.objects.all() if is_long else None
    ranked = states.with_rank(Job.objects.all(), now)

    segments = states.segments_of(Job.objects.all(), now, name, runs)

    found = [job.pk for segment in segments for job in segment.rows]
    assert sorted(found) == sorted(job.pk for job in states.standing_as(ranked, name))


def test_long_list_has_every_job_once_and_the_worst_first(owner: User):
    jobs = in_every_state(owner)
    now, runs = clock.now(), Execution.objects.all()

    found = [job.pk for segment in states.worst_first(Job.objects.all(), now) for job in segment.rows]

    assert sorted(found) == sorted(job.pk for job in jobs.values())
    assert found[:2] == [jobs["late"].pk, jobs["failing"].pk]
    counts = states.count_by_index(Job.objects.all(), runs, now)
    assert counts == dict.fromkeys(states.STANDINGS, 1) | {"healthy": None, "new": None}
