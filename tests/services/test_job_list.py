"""The list of jobs: its pages, and texts that are longer than people write."""

import pytest

from schedules import clock, services
from schedules.models import Job
from schedules.services import job_list
from schedules.services.job_list import JobQuery, mentioning, read_jobs
from tests.factories import ExecutionFactory, JobFactory


def plain(jobs, **more):
    return jobs.annotate(**more)


@pytest.mark.parametrize("asked", [{}, {"text": "job"}, {"status": "pending"}, {"source": "jobs.yaml"}])
def test_pages_lead_through_the_whole_list(actor, owner, asked):
    columns = {"owner": owner, "name": "One job", "source": "jobs.yaml"}
    made = [JobFactory(**columns, source_key=str(number)) for number in range(5)]
    seen, start = [], 0
    while start is not None:
        page = read_jobs(actor, JobQuery(**asked), plain, size=2, start=start)
        assert page.total == 5
        assert {page.standings[job.pk].name for job in page.rows} == {"new"}
        seen += page.rows
        start = page.next_start

    assert sorted(job.pk for job in seen) == sorted(job.pk for job in made)


def test_jobs_of_one_status_are_listed_beyond_the_limit_of_counts(actor, owner, monkeypatch):
    monkeypatch.setattr(job_list, "COUNTED", 2)
    made = JobFactory.create_batch(6, owner=owner, paused=True)
    seen, start = [], 0
    while start is not None:
        page = read_jobs(actor, JobQuery(status="paused"), plain, size=4, start=start)
        seen += page.rows
        start = page.next_start

    assert seen == made[::-1]


@pytest.mark.parametrize(("status", "for_agent"), [("running", False), ("pending", True)])
def test_unclaimed_prompt_is_pending_for_agents_only(actor, agent, owner, status, for_agent):
    job = JobFactory(owner=owner, task="prompt", once=True, status="running", next_run_at=None)
    ExecutionFactory(job=job, status="waiting", scheduled_for=clock.now(), lease_until=None)

    found = {who.door: read_jobs(who, JobQuery(status=status), plain, size=9).rows for who in (actor, agent)}

    assert found == {actor.door: [] if for_agent else [job], agent.door: [job] if for_agent else []}


def test_trash_is_a_list_of_its_own(actor, owner):
    kept, deleted = JobFactory(owner=owner), JobFactory(owner=owner, deleted_at=clock.now())

    assert read_jobs(actor, JobQuery(), plain, size=9).rows == [kept]
    assert read_jobs(actor, JobQuery(in_trash=True), plain, size=9).rows == [deleted]


def test_text_of_any_length_is_answered(owner):
    job = JobFactory(owner=owner, name="One job")

    assert list(mentioning(Job.objects.all(), "job one " * 5_000)) == [job]
    assert not mentioning(Job.objects.all(), " ".join(f"w{number}" for number in range(5_000)))


def test_search_follows_what_is_created_and_edited(actor):
    columns = {"task": "tests.ping", "trigger_type": "cron", "cron": "1 2 * * *"}
    job = services.schedule(actor, name="Attic lamp", **columns).value.job
    assert rows(actor, text="attic") == [job]

    services.edit(actor, job.public_id, name="Cellar lamp", tags=["Light"])

    assert rows(actor, text="attic") == []
    assert rows(actor, text="CELLAR light") == rows(actor, tag="light") == [job]
    assert rows(actor, tag="lamp") == []


def rows(actor, **asked):
    return read_jobs(actor, JobQuery(**asked), plain, size=9).rows
