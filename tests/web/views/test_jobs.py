"""The job list: its rows, filters and query count."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Incident, Job
from schedules.models.job_texts import skeleton
from schedules.models.standings import ATTENTION, ORDER
from schedules.services import job_overview
from schedules.when.skips import slot_entry
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.web.html import html_of


def shown(answer: object) -> list[str]:
    return [job.name for job in answer.context["listed"].rows]  # type: ignore[attr-defined]


def in_every_state(owner: User) -> dict[str, Job]:
    now = clock.now()
    past, ran = now - timedelta(minutes=5), {"last_run_at": now - timedelta(hours=1)}
    jobs = {
        "stopped_failing": JobFactory(owner=owner, paused=True, failure_streak=10, **ran),
        "failed": JobFactory(
            owner=owner, once=True, status="failed", next_run_at=None, failure_streak=1, **ran
        ),
        "failing": JobFactory(owner=owner, failure_streak=2, recent="SFF", last_error="boom", **ran),
        "retrying": JobFactory(owner=owner, attempts=5, **ran),
        "late": JobFactory(owner=owner, next_run_at=past, **ran),
        "running": JobFactory(owner=owner, **ran),
        "waiting": JobFactory(owner=owner, task="prompt", **ran),
        "healthy": JobFactory(owner=owner, recent="S", **ran),
        "new": JobFactory(owner=owner),
        "paused": JobFactory(owner=owner, paused=True, failure_streak=3, **ran),
        "completed": JobFactory(owner=owner, ended=True, **ran),
        "cancelled": JobFactory(owner=owner, status="cancelled", next_run_at=None, **ran),
    }
    ExecutionFactory(job=jobs["running"], status="running")
    retry = {"available_at": now + timedelta(seconds=8), "error": "DNS lookup failed"}
    ExecutionFactory(job=jobs["retrying"], status="queued", attempt=1, **retry)
    ExecutionFactory(job=jobs["waiting"], status="waiting")
    ExecutionFactory(job=jobs["healthy"], status="queued")
    return jobs


def test_job_is_listed_under_its_worst_state(web: Client, owner: User):
    jobs = in_every_state(owner)

    answer = web.get("/")

    listed = {job.pk: job.standing for job in answer.context["listed"].rows}
    assert listed == {job.pk: name for name, job in jobs.items()}
    assert answer.context["counts"] == dict.fromkeys(jobs, 1)
    assert shown(answer) == [job.name for job in jobs.values()]


def test_status_filter_shows_the_jobs_in_that_state(web: Client, owner: User):
    jobs = in_every_state(owner)

    for name in ORDER:
        answer = web.get("/", {"status": name})

        assert shown(answer) == [jobs[name].name], name
        assert answer.context["total"] == len(jobs)


def test_list_is_filtered_by_the_query_string(web: Client, owner: User):
    JobFactory(owner=owner, name="Nightly backup", cron="17 3 * * mon-fri", made_by="laptop", tags=["db"])
    JobFactory(owner=owner, name="Blumen", task="prompt", tags=["häuslich", 'say "db"', 'x"db'])

    for asked, found in (
        ({"q": "backup"}, "Nightly backup"),
        ({"q": "häus"}, "Blumen"),
        ({"tag": "DB"}, "Nightly backup"),
        ({"tag": 'say "db"'}, "Blumen"),
        ({"task": "prompt"}, "Blumen"),
        ({"made_by": "laptop"}, "Nightly backup"),
    ):
        assert shown(web.get("/", asked)) == [found], asked
    assert shown(web.get("/", {"q": "' OR 1=1 --"})) == []


def test_list_is_sorted_by_the_query_string(web: Client, owner: User):
    now = clock.now()
    JobFactory(owner=owner, name="Alpha", next_run_at=now + timedelta(hours=2), last_run_at=now)
    JobFactory(owner=owner, name="Zulu", next_run_at=now + timedelta(hours=1))

    firsts = {"name": "Alpha", "-name": "Zulu", "-last": "Alpha", "next": "Zulu", "nonsense": "Alpha"}
    assert {sort: shown(web.get("/", {"sort": sort}))[0] for sort in firsts} == firsts


def test_list_is_paginated(web: Client, owner: User):
    JobFactory.create_batch(51, owner=owner, paused=True)
    JobFactory(owner=owner)

    first = web.get("/?status=paused")
    second = web.get("/", {"status": "paused", "after": first.context["listed"].after})

    assert (len(shown(first)), len(shown(second))) == (50, 1)
    assert re.search(r"50\s+of 51\s+shown", html_of(first))
    assert not set(shown(first)) & set(shown(second))


def test_long_list_has_the_jobs_of_a_short_one(web: Client, owner: User, monkeypatch: pytest.MonkeyPatch):
    jobs = in_every_state(owner)
    JobFactory(owner=owner, tags=["home"])
    questions: list[dict[str, str]] = [
        {},
        {"sort": "next"},
        {"q": "job"},
        {"tag": "home"},
        {"status": ATTENTION},
    ]
    questions += [{"status": name} for name in ORDER]
    expected = [shown(web.get("/", asked)) for asked in questions]

    monkeypatch.setattr(job_overview, "LARGE", len(jobs))
    monkeypatch.setattr(job_overview, "FIRST", len(jobs))

    assert [shown(web.get("/", asked)) for asked in questions[2:]] == expected[2:]
    assert [shown(web.get("/", asked))[:8] for asked in questions[:2]] == [
        found[:8] for found in expected[:2]
    ]


def test_search_in_a_long_list_finds_names_by_their_beginning_and_whole_ids(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    JobFactory.create_batch(3, owner=owner, next_run_at=clock.now() + timedelta(minutes=1))
    last = JobFactory(owner=owner, name="Nightly backup", public_id="job_7_7", ended=True)
    Job.objects.filter(pk=last.pk).update(name_skeleton=skeleton(last.name))
    limit_list(monkeypatch, 2)

    for asked in ("Nightly backup", "NIGHTLY", "job_7_7"):
        assert shown(web.get("/", {"q": asked})) == ["Nightly backup"], asked


def test_search_in_a_long_list_says_how_many_jobs_it_looked_through(
    web: Client, staff: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    for minute in range(1, 6):
        JobFactory(owner=owner, name=f"Job x{minute}", next_run_at=clock.now() + timedelta(minutes=minute))
    limit_list(monkeypatch, 2)

    for client in (web, staff):
        assert shown(client.get("/", {"q": "x2 job"})) == ["Job x2"]
        missed = client.get("/", {"q": "x5 job"})
        assert "No match among the 2 jobs that were searched" in html_of(missed)
        assert shown(missed) == []


def test_long_list_has_the_broken_jobs_first_and_says_where_it_ends(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    jobs = in_every_state(owner)
    limit_list(monkeypatch, 8)

    answer = web.get("/")

    page, found = html_of(answer), [job.pk for job in answer.context["listed"].rows]
    assert found == [jobs[name].pk for name in ORDER[:8]]
    assert f"All <b>{len(jobs)}</b>" in page
    assert "Late <b>1</b>" in page
    assert ">New</a>" in page
    assert "Only the first 8 jobs are listed" in page


def limit_list(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for name in ("LARGE", "FIRST", "SCANNED"):
        monkeypatch.setattr(job_overview, name, most)


def test_every_page_warns_if_no_cluster_is_running(web: Client, owner: User):
    JobFactory(owner=owner, next_run_at=clock.now() - timedelta(minutes=5))

    assert "The worker is offline, so nothing runs." in web.get("/runs/").content.decode()


def test_every_page_counts_broken_and_late_jobs_in_its_title_and_icon(
    web: Client, staff: Client, owner: User
):
    jobs = in_every_state(owner)

    assert "<title>3 failing, 1 late – Jobs – Cronty</title>" in web.get("/").content.decode()
    for path in ("/?q=nothing-like-it", "/runs/", "/settings/", f"/jobs/{jobs['healthy'].public_id}/"):
        for page in (html_of(web.get(path)), html_of(staff.get(path))):
            assert "<title>3 failing, 1 late – " in page
            assert 'rel="icon" href="/static/schedules/favicon-failing.svg"' in page


def test_job_whose_schedule_cannot_be_read_is_red_and_says_what_to_do(web: Client, owner: User):
    job = JobFactory(
        owner=owner,
        paused=True,
        cron="no",
        has_unreadable_schedule=True,
        pause_reason="Its schedule cannot be read: no.",
    )

    row, page = html_of(web.get("/?status=stopped_failing")), html_of(web.get(f"/jobs/{job.public_id}/"))

    assert "<title>1 failing – Jobs – Cronty</title>" in row
    assert "edit its schedule" in row
    assert "Its schedule cannot be read: no." in page
    assert "Its schedule cannot be read: no." in html_of(web.get(f"/jobs/{job.public_id}/edit/"))
    assert re.search(r'<a href="/jobs/\w+/edit/">Edit the schedule</a>, then resume the job.', page)


def test_staff_filter_the_list_by_owner(staff: Client, web: Client, owner: User, stranger: User):
    mine, foreign = JobFactory(owner=owner), JobFactory(owner=stranger)

    assert shown(staff.get("/", {"owner": owner.username})) == [mine.name]
    assert shown(staff.get("/", {"owner": stranger.username})) == [foreign.name]
    assert shown(staff.get("/", {"owner": "nobody"})) == []
    assert "Owner: olga ×" in html_of(staff.get("/", {"owner": "olga"}))
    assert shown(web.get("/", {"owner": stranger.username})) == []
    assert "Any owner" not in html_of(web.get("/"))


def test_next_run_is_shown_in_the_zone_of_the_viewer(web: Client, owner: User):
    due = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
    JobFactory(owner=owner, timezone="Asia/Kathmandu", next_run_at=due)
    JobFactory(owner=owner, once=True, timezone="Asia/Kathmandu", run_at=due)

    page = web.get("/").content.decode()

    assert "Asia/Kathmandu" in page
    assert ">1 Jan 2030 13:00<" in page
    assert "Times are shown in Europe/Berlin" in page
    assert ">1 Jan 2030 17:45</span>" in page
    assert 'title="Once, on Tue 1 Jan 2030 at 17:45 +0545"' in page


def test_pages_open_for_a_job_with_an_invalid_schedule(web: Client, owner: User):
    job = JobFactory(owner=owner, cron="not a cron", timezone="Nowhere/Land", last_run_at=clock.now())

    for path in ("/", f"/jobs/{job.public_id}/", f"/jobs/{job.public_id}/edit/", "/calendar/", "/runs/"):
        assert web.get(path).status_code == 200


@pytest.mark.parametrize("count", [60])
def test_query_count_does_not_grow_with_the_list(
    web: Client, owner: User, count: int, django_assert_num_queries: object
):
    for job in JobFactory.create_batch(count, owner=owner):
        ExecutionFactory.create_batch(2, job=job)
    ClusterFactory()

    with django_assert_num_queries(15):  # type: ignore[operator]
        web.get("/")


def test_skipped_run_is_not_shown_as_the_next_one(web: Client, owner: User, django_assert_num_queries: Any):
    tomorrow = (clock.now() + timedelta(days=1)).replace(hour=8, minute=0, second=0, microsecond=0)
    job = JobFactory(owner=owner, name="Skipped", cron="0 8 * * *", next_run_at=tomorrow)
    job.skips = slot_entry(tomorrow)
    job.save(update_fields=["skips"])
    ClusterFactory()

    with django_assert_num_queries(15):
        answer = web.get("/")

    page = answer.content.decode()
    assert f'datetime="{tomorrow:%Y-%m-%dT%H:%M}' not in page
    assert f'datetime="{tomorrow + timedelta(days=1):%Y-%m-%dT%H:%M}' in page


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_action_redirects_only_to_our_own_pages(web: Client, owner: User, target: str):
    job = JobFactory(owner=owner)

    answer = web.post(f"/jobs/{job.public_id}/pause/", {"next": target})

    assert answer["Location"] == f"/jobs/{job.public_id}/"


def test_broken_jobs_come_first_with_their_whole_error_and_a_retry(web: Client, owner: User):
    error = "HTTP 503: " + "no backend is alive " * 20
    broken = [
        JobFactory(owner=owner, failure_streak=2, last_error=error, last_run_at=clock.now()),
        JobFactory(owner=owner, paused=True, failure_streak=10, last_run_at=clock.now()),
    ]
    JobFactory(owner=owner)

    answer = web.get("/")

    page = html_of(answer)
    assert set(answer.context["attention"]) == set(broken)
    assert "Needs attention <b>2</b></a>" in page
    assert page.index("Needs attention <b>2</b>") < page.index(">All <b>")
    assert page.count(error.strip()) >= 1
    assert f'action="/jobs/{broken[0].public_id}/run/"' in page
    assert set(web.get("/?status=attention").context["listed"].rows) == set(broken)
    assert web.get("/?status=attention").context["attention"] == []


@time_machine.travel("2026-11-15T10:02:00Z", tick=False)
def test_broken_job_says_since_when_it_fails(web: Client, owner: User, django_assert_max_num_queries: Any):
    now, hour = clock.now(), timedelta(hours=1)
    failing = {"failure_streak": 2, "last_run_at": now, "last_success_at": now - 9 * hour}
    jobs = [JobFactory(owner=owner, **failing), JobFactory(owner=owner, **failing)]
    for job in jobs:
        for hours in (30, 3):
            at = now - hours * hour
            facts = {"name": job.name, "opened_at": at, "ended_at": at + hour}
            Incident.objects.create(owner=owner, job=job, kind="failing", subject=f"job {job.pk}", **facts)
    once = JobFactory(owner=owner, failure_streak=1, last_run_at=now - hour)
    unknown = JobFactory(owner=owner, failure_streak=2, last_run_at=now)

    with django_assert_max_num_queries(19):
        attention = web.get("/").context["attention"]

    assert {job.pk: job.failing_since for job in attention} == {
        jobs[0].pk: now - 3 * hour,
        jobs[1].pk: now - 3 * hour,
        once.pk: now - hour,
        unknown.pk: None,
    }
