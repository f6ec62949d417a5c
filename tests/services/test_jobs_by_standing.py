"""Standings of jobs in large lists."""

from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Job
from schedules.models.standings import ORDER, STANDINGS, with_rank
from schedules.services import jobs_by_standing
from tests.factories import ExecutionFactory, JobFactory
from tests.models.test_job_queries import RUNS
from tests.web.views.test_jobs import in_every_state


def test_pages_and_tools_agree_on_whether_a_job_is_running(owner: User):
    for run in RUNS.values():
        job = JobFactory(owner=owner)
        if run:
            ExecutionFactory(job=job, **run)

    for shown in with_rank(Job.objects.with_activity(), clock.now()):
        # A tool calls a job running, too, while it waits for a retry.
        assert (ORDER[shown.rank] in ("running", "retrying")) is (shown.state == "running")


def test_segment_of_a_standing_has_its_jobs(owner: User):
    in_every_state(owner)
    ExecutionFactory(job=JobFactory(owner=owner, status="running", next_run_at=None), status="waiting")
    now = clock.now()
    ranked = with_rank(Job.objects.all(), now)

    for name in STANDINGS:
        found = [job.pk for job in jobs_by_standing.segment_of(Job.objects.all(), now, name).rows]

        assert sorted(found) == sorted(job.pk for job in ranked.filter(rank=ORDER.index(name))), name
