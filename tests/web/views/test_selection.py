"""Actions on selected jobs: which jobs change, what people read, and undo."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Job
from tests.factories import JobFactory
from tests.web.html import html_of

UNTIL = datetime(2099, 1, 1, tzinfo=UTC)
PAUSED = {"paused": True, "pause_reason": "Maintenance", "paused_until": UNTIL}


@pytest.mark.parametrize(
    ("verb", "columns"),
    [
        ("pause", {}),
        ("resume", PAUSED),
        ("cancel", {}),
        ("cancel", PAUSED),
        ("delete", {}),
        ("delete", PAUSED),
        ("delete", {"status": "cancelled", "next_run_at": None}),
    ],
)
def test_every_action_can_be_undone(web: Client, owner: User, verb: str, columns: dict[str, object]):
    jobs = JobFactory.create_batch(2, owner=owner, **columns)
    before = [state_of(job) for job in jobs]

    page = html_of(
        web.post("/jobs/bulk/", {"verb": verb, "job": [job.public_id for job in jobs]}, follow=True)
    )
    ids = " ".join(job.public_id for job in jobs)
    # A second click changes nothing.
    for _ in range(2):
        web.post("/activity/undo/", {"verb": verb, "job": ids})

    assert f'<input type="hidden" name="verb" value="{verb}">' in page
    assert f'<input type="hidden" name="job" value="{ids}">' in page
    assert [state_of(job) for job in Job.objects.kept().order_by("pk")] == before


def state_of(job: Job) -> tuple[str, str, datetime | None]:
    return job.status, job.pause_reason if job.status == "paused" else "", job.paused_until


def test_all_jobs_that_match_the_filters_are_changed(web: Client, owner: User, stranger: User):
    JobFactory.create_batch(60, owner=owner, name="Match", tags=["home"])
    JobFactory(owner=owner, name="Other")
    JobFactory(owner=stranger, name="Match", tags=["home"])

    page = html_of(web.get("/?q=match"))
    web.post("/jobs/bulk/", {"verb": "pause", "all": "1", "next": "/?q=match&tag=home&status=new"})

    assert "Select all 60" in page
    assert set(Job.objects.filter(status="paused").values_list("owner", "name")) == {(owner.pk, "Match")}
    assert Job.objects.filter(status="paused").count() == 60


@pytest.mark.parametrize(
    ("sent", "together"),
    [
        ({"verb": "pause"}, 2),
        ({"verb": "pause_until", "until": "in 2 days"}, 2),
        ({"verb": "pause", "next": "/?q=match"}, 0),
        ({"verb": "pause", "next": "/?status=new"}, 0),
    ],
)
def test_pause_of_all_jobs_without_a_filter_is_a_pause_of_everything(
    web: Client, owner: User, sent: dict[str, str], together: int
):
    JobFactory.create_batch(2, owner=owner, name="Match")

    web.post("/jobs/bulk/", {"all": "1", "next": "/"} | sent)

    assert Job.objects.filter(status="paused").count() == 2
    assert Job.objects.filter(pause_reason="Everything was paused.").count() == together


def test_one_action_changes_a_limited_number_of_jobs(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("schedules.web.views.jobs.MAX_JOBS", 2)
    JobFactory.create_batch(3, owner=owner)

    web.post("/jobs/bulk/", {"verb": "pause", "all": "1", "next": "/"})

    assert Job.objects.filter(status="paused").count() == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"ended": True}, "Old migration has already finished, so it wasn't paused."),
        ({"status": "cancelled", "next_run_at": None}, "was stopped permanently, so it wasn't paused."),
    ],
)
def test_refusal_names_the_job_and_the_reason(
    web: Client, owner: User, stranger: User, columns: dict[str, object], words: str
):
    mine, foreign = JobFactory(owner=owner, name="Old migration", **columns), JobFactory(owner=stranger)

    answer = web.post(
        "/jobs/bulk/", {"verb": "pause", "job": [mine.public_id, foreign.public_id]}, follow=True
    )

    shown = html_of(answer)
    assert words in shown.replace("&#x27;", "'")
    assert "1 more job was left unchanged." in shown
    toasts = shown.partition('id="toasts"')[2].partition("<footer>")[0]
    assert mine.public_id not in toasts
    assert foreign.public_id not in toasts


def test_action_without_a_selection_says_so(web: Client):
    for data in [{}, {"verb": "pause"}, {"verb": "explode", "job": ["x"]}]:
        assert "Select at least one job first." in html_of(web.post("/jobs/bulk/", data, follow=True))


def bulk(web: Client, jobs: list[Job], **typed: str) -> str:
    return html_of(web.post("/jobs/bulk/", typed | {"job": [job.public_id for job in jobs]}, follow=True))


def undo(web: Client, jobs: list[Job], verb: str) -> None:
    web.post("/activity/undo/", {"verb": verb, "job": " ".join(job.public_id for job in jobs)})


def test_tag_is_added_and_removed_and_both_are_undone(web: Client, owner: User):
    jobs = [JobFactory(owner=owner, tags=["home"]), JobFactory(owner=owner, tags=["home", "kids"])]

    def tags() -> list[list[str]]:
        return [job.tags for job in Job.objects.order_by("pk")]

    bulk(web, jobs, verb="tag", tag="kids")
    assert tags() == [["home", "kids"], ["home", "kids"]]
    undo(web, jobs[:1], "edit")
    assert tags() == [["home"], ["home", "kids"]]
    bulk(web, jobs, verb="untag", tag="home")
    assert tags() == [[], ["kids"]]
    assert "tagged like that already" in bulk(web, jobs, verb="untag", tag="home")
