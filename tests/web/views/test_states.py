"""States of jobs on the pages, in small and large lists."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Job
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


@pytest.mark.parametrize("wanted", [slice(0, 4), slice(3, 9), slice(8, 20), slice(20, 30), slice(0, 51)])
def test_large_and_small_lists_have_the_same_pages(
    owner: User, monkeypatch: pytest.MonkeyPatch, wanted: slice
):
    for _ in range(2):
        in_every_state(owner)
    ranked = states.with_rank(Job.objects.all(), clock.now())
    rows = states.WorstFirst(ranked, states.count_by_standing(ranked))
    small = [job.pk for job in rows[wanted]]

    monkeypatch.setattr(states, "LARGE", 0)

    assert [job.pk for job in rows[wanted]] == small
