"""Pages of long lists: next, previous, limits of what is looked through, and changes in between."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Execution, Job
from schedules.services import paging
from schedules.services.paging import ListPage, read_page
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of

HISTORY = ("-scheduled_for", "-pk")


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "SCANNED", 3)


def read(size: int = 3, **asked: str) -> ListPage:
    """Read a page of the trash, in which some jobs were deleted at the same moment."""
    return read_page(Job.objects.all(), asked, size, order=("-deleted_at", "-pk"))


def some_jobs(owner: User) -> list[Job]:
    """Ten jobs in the order of the list, some of the same moment."""
    now = clock.now()
    moments = [now - timedelta(minutes=minute) for minute in (1, 2, 2, 2, 3, 4, 5, 5, 6, 7)]
    jobs = [JobFactory(owner=owner, deleted_at=moment) for moment in moments]
    return sorted(jobs, key=lambda job: (job.deleted_at, job.pk), reverse=True)


def test_pages_forth_and_back_have_every_row_once(owner: User):
    jobs = some_jobs(owner)
    for size in [1, 2, 3, 4, 9, 10]:
        pages = [read(size)]
        while pages[-1].after:
            pages.append(read(size, after=pages[-1].after))
        back = [pages[-1]]
        while back[-1].before:
            back.append(read(size, before=back[-1].before))

        assert [job for page in pages for job in page.rows] == jobs
        assert not pages[0].before
        assert [page.rows for page in back] == [page.rows for page in pages[::-1]]


def test_next_page_skips_and_repeats_nothing_when_a_row_moves_or_is_deleted(owner: User):
    jobs = some_jobs(owner)
    first = read()
    for job in first.rows[:2]:
        Job.objects.filter(pk=job.pk).update(deleted_at=clock.now() - timedelta(days=1))
    first.rows[2].delete()

    second = read(after=first.after)

    assert second.rows == jobs[3:6]
    assert read(before=second.before).rows == second.rows


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
    runs_of_job = Execution.objects.all()

    def read(**asked: str) -> ListPage:
        return read_page(runs_of_job.filter(status="failed"), asked, 3, order=HISTORY, among=runs_of_job)

    pages = [read()]
    while pages[-1].after:
        pages.append(read(after=pages[-1].after))

    assert [page.rows for page in pages] == [[], [], [runs[7]], []]
    assert [page.scanned for page in pages] == [3, 3, 3, None]
    assert read(before=pages[-1].before).rows == [runs[7]]


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
    keys = [
        "x",
        "1",
        "~",
        "~~",
        "0~",
        "x~1",
        "1~1~1",
        "1~99999999999999999999",
        f"{'9' * 5000}~1",
        "9" * 18 + "~1",
    ]

    for key in (*keys, "\0~1", "²~1", "-~1"):
        for name in ("before", "after"):
            assert read(**{name: key}).rows == jobs[:3], key
    for address in ("/", "/runs/", "/activity/", "/trash/", "/inbox/"):
        assert web.get(address, {"after": "0~\0~1"}).status_code == 200
