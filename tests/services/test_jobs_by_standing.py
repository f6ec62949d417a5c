"""Standings of jobs in small and large lists."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Execution, Job
from schedules.models.standings import ORDER, STANDINGS, with_rank
from schedules.services import jobs_by_standing
from tests.factories import ExecutionFactory, JobFactory
from tests.models.test_job_queries import RUNS
from tests.web.views.test_jobs import in_every_state


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_pages_and_tools_agree_on_whether_a_job_is_running(owner: User, run: dict[str, Any] | None):
    job = JobFactory(owner=owner)
    if run:
        ExecutionFactory(job=job, **run)

    [shown] = with_rank(Job.objects.with_activity(), clock.now())

    # A tool calls a job running, too, while it waits for a retry.
    assert (ORDER[shown.rank] in ("running", "retrying")) is (shown.state == "running")


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("name", STANDINGS)
def test_segments_of_a_standing_have_its_jobs(owner: User, name: str, is_long: bool):
    in_every_state(owner)
    ExecutionFactory(job=JobFactory(owner=owner, status="running", next_run_at=None), status="waiting")
    now, runs = clock.now(), Execution.objects.all() if is_long else None
    ranked = with_rank(Job.objects.all(), now)

    segments = jobs_by_standing.segments_of(Job.objects.all(), now, name, runs)

    found = [job.pk for segment in segments for job in segment.rows]
    assert sorted(found) == sorted(job.pk for job in ranked.filter(rank=ORDER.index(name)))


def test_long_list_has_every_job_once_and_the_worst_first(owner: User):
    jobs = in_every_state(owner)
    now, runs = clock.now(), Execution.objects.all()

    found = [
        job.pk for segment in jobs_by_standing.worst_first(Job.objects.all(), now) for job in segment.rows
    ]

    assert sorted(found) == sorted(job.pk for job in jobs.values())
    worst = ("stopped_failing", "failed", "failing", "late")
    assert found[:4] == [jobs[name].pk for name in worst]
    counts = jobs_by_standing.count_by_index(Job.objects.all(), runs, now, owner.cronty_profile)
    assert counts == dict.fromkeys(STANDINGS, 1) | {"healthy": None, "new": None}
