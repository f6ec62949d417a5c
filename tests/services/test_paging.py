"""Pages of long lists: next, previous, limits of what is looked through, and changes in between."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Execution, Job, keysets
from schedules.models.keysets import Segment
from schedules.services import paging
from schedules.services.paging import ListPage, read_page
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of

HISTORY = ("-scheduled_for", "-pk")


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (keysets, paging):
        monkeypatch.setattr(module, "WALKED", 3)


def read(segments: list[Segment], size: int = 3, **asked: str) -> ListPage:
    return read_page(segments, asked, size)


def job_segments() -> list[Segment]:
    planned = Job.objects.filter(next_run_at__isnull=False)
    return [Segment(planned, ("next_run_at", "-pk")), Segment(Job.objects.filter(next_run_at=None))]


def some_jobs(owner: User) -> list[Job]:
    """Ten jobs in the order of the list, some of the same moment, the last without a next run."""
    now = clock.now()
    jobs = [
        JobFactory(owner=owner, next_run_at=now + timedelta(minutes=minute)) for minute in (1, 2, 2, 2, 3, 4)
    ]
    jobs += [JobFactory(owner=owner, ended=True) for _ in range(4)]
    return sorted(jobs, key=lambda job: (job.next_run_at is None, job.next_run_at or now, -job.pk))


def test_pages_forth_and_back_have_every_row_once(owner: User):
    jobs = some_jobs(owner)
    for size in [1, 2, 3, 4, 9, 10]:
        pages = [read(job_segments(), size)]
        while pages[-1].after:
            pages.append(read(job_segments(), size, after=pages[-1].after))
        back = [pages[-1]]
        while back[-1].before:
            back.append(read(job_segments(), size, before=back[-1].before))

        assert [job for page in pages for job in page.rows] == jobs
        assert not pages[0].before
        assert [page.rows for page in back] == [page.rows for page in pages[::-1]]


def test_next_page_skips_and_repeats_nothing_when_a_job_fires_or_is_deleted(owner: User):
    jobs = some_jobs(owner)
    first = read(job_segments())
    for job in first.rows[:2]:
        Job.objects.filter(pk=job.pk).update(next_run_at=clock.now() + timedelta(days=1))
    first.rows[2].delete()

    second = read(job_segments(), after=first.after)

    assert second.rows == jobs[3:6]
    assert read(job_segments(), before=second.before).rows == second.rows


@pytest.mark.usefixtures("few_at_a_time")
def test_filter_looks_through_a_limited_number_of_rows_at_a_time(owner: User):
    job = JobFactory(owner=owner)
    runs = [
        ExecutionFactory(
            job=job,
            scheduled_for=clock.now() - timedelta(minutes=minute),
            status="failed" if minute == 7 else "succeeded",
        )
        for minute in range(10)
    ]
    walked = Execution.objects.all()
    segments = [Segment(walked.filter(status="failed"), HISTORY, walked)]

    pages = [read(segments)]
    while pages[-1].after:
        pages.append(read(segments, after=pages[-1].after))

    assert [page.rows for page in pages] == [[], [], [runs[7]], []]
    assert [page.walked for page in pages] == [3, 3, 3, None]
    assert read(segments, before=pages[-1].before).rows == [runs[7]]


@pytest.mark.usefixtures("few_at_a_time")
def test_page_says_how_many_runs_it_looked_through(web: Client, owner: User):
    job = JobFactory(owner=owner)
    for minute in range(5):
        ExecutionFactory(job=job, scheduled_for=clock.now() - timedelta(minutes=minute))

    first = web.get("/runs/", {"cause": "catch_up"})
    page = html_of(first)

    assert "No match among the 3 runs searched so far. Continue with older ones." in page
    assert f"?cause=catch_up&amp;after={first.context['listed'].after}" in page
    last = html_of(web.get("/runs/", {"cause": "catch_up", "after": first.context["listed"].after}))
    assert "Try a different search or clear the filters." in last


@pytest.mark.usefixtures("few_at_a_time")
def test_old_run_that_did_not_succeed_is_found_at_once(web: Client, owner: User):
    job, now = JobFactory(owner=owner), clock.now()
    statuses = ("running", "waiting", "failed", "lost", "missed", "skipped", "cancelled")
    old = {
        status: ExecutionFactory(job=job, status=status, scheduled_for=now - timedelta(days=day))
        for day, status in enumerate(statuses, 1)
    }
    for minute in range(5):
        ExecutionFactory(job=job, scheduled_for=now - timedelta(minutes=minute), finished_at=now)

    for status, run in old.items():
        assert web.get("/runs/", {"status": status}).context["listed"].rows == [run]


def test_invalid_key_is_not_an_error(web: Client, owner: User):
    jobs = some_jobs(owner)
    keys = ["x", "~", "~~", "0~~", "0~x~1", "9~1~1", "0~1~99999999999999999999", f"0~{'9' * 5000}~1"]

    for key in (*keys, "0~\0~1", "²~1~1"):
        for name in ("before", "after"):
            assert read(job_segments(), **{name: key}).rows == jobs[:3], key
    for address in ("/", "/runs/", "/activity/", "/trash/", "/inbox/"):
        assert web.get(address, {"after": "0~\0~1"}).status_code == 200
