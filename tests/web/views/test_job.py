"""The page of one job, and its actions."""

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from schedules import clock, services
from schedules.models import Execution, Job
from schedules.services import Actor
from schedules.web.views.job_facts import Health, policies, shown_values
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.web.html import html_of


@pytest.fixture
def job(owner: User) -> Job:
    return JobFactory(owner=owner, name="Backup", timezone="Europe/Berlin")


def test_job_deleted_while_its_page_is_rendered_is_not_an_error(web: Client, job: Job):
    def delete_after_first_read(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found = execute(sql, params, many, context)
        if 'FROM "schedules_job"' in sql and job.public_id in params:
            Job.objects.filter(pk=job.pk).update(deleted_at=clock.now())
        return found

    with connection.execute_wrapper(delete_after_first_read):
        assert web.get(f"/jobs/{job.public_id}/").status_code == 200

    assert web.get(f"/jobs/{job.public_id}/")["Location"] == "/trash/"


@time_machine.travel("2026-11-15T10:00:41Z", tick=False)
@pytest.mark.parametrize(("has_cluster", "words"), [(False, "waiting for the worker."), (True, "starting.")])
def test_overdue_job_says_what_it_waits_for(web: Client, owner: User, has_cluster: bool, words: str):
    if has_cluster:
        ClusterFactory(last_seen_at=clock.now())
    job = JobFactory(owner=owner, next_run_at=clock.now() - timedelta(seconds=41))

    page = html_of(web.get(f"/jobs/{job.public_id}/"))

    assert re.search(rf"Due <time [^>]*>41 s ago</time>, {re.escape(words)}", page)
    assert "The first one starts" not in page


def test_why_is_answered_from_the_ledger(web: Client, job: Job):
    ExecutionFactory(job=job, status="skipped", reason="The previous run was still running.")

    page = web.get(f"/jobs/{job.public_id}/", {"why": clock.now().isoformat()}).content.decode()

    assert "This run was skipped. The previous run was still running." in page


def test_run_now_redirects_to_the_run(web: Client, job: Job):
    answer = web.post(f"/jobs/{job.public_id}/run/")

    run = Execution.objects.get(job=job)
    assert run.cause == "manual"
    assert answer["Location"] == f"/runs/{run.pk}/"


def test_buttons_pause_resume_and_stop_the_job(web: Client, job: Job):
    web.post(f"/jobs/{job.public_id}/pause/", {"reason": "Holiday", "until": "in 3 days"})
    job.refresh_from_db()
    assert (job.status, job.pause_reason, job.paused_until is None) == ("paused", "Holiday", False)

    for action, status in (("resume", "pending"), ("cancel", "cancelled")):
        web.post(f"/jobs/{job.public_id}/{action}/")
        job.refresh_from_db()
        assert job.status == status


@time_machine.travel("2026-11-15T10:00:00Z", tick=False)
@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("some day", "Couldn&#x27;t read that date and time"),
        ("2026-11-15 10:59", "That time is in the past (now 2026-11-15 11:00:00 Europe/Berlin)."),
    ],
)
def test_pause_with_an_invalid_end_shows_the_form_again(web: Client, job: Job, until: str, words: str):
    answer = web.post(f"/jobs/{job.public_id}/pause/", {"reason": "Holiday", "until": until}, follow=True)

    job.refresh_from_db()
    page = answer.content.decode()
    assert job.status == "pending"
    assert f'<p class="err" id="until_error">{words}' in page
    assert 'value="Holiday"' in page
    assert f'value="{until}"' in page


def test_page_of_a_deleted_job_leads_to_the_trash_once_and_its_parts_do_not(web: Client, job: Job):
    web.post(f"/jobs/{job.public_id}/delete/", follow=True)
    part = {"HX-Request": "true"}

    polled = [web.get(f"/jobs/{job.public_id}/", headers=part).status_code for _ in range(2)]
    pressed = web.post(f"/jobs/{job.public_id}/run/", headers=part).status_code
    shown = web.get("/").content.decode()

    assert (polled, pressed) == ([404, 404], 404)
    assert shown.count("is in the trash. Restore it to use it again.") == 1


@pytest.mark.parametrize(
    ("statuses", "rate"),
    [
        (["succeeded"] * 199 + ["failed"], "99%"),
        (["succeeded", "succeeded", "failed"], "67%"),
        (["succeeded", "cancelled", "skipped", "running", "queued"], "100%"),
        (["cancelled", "skipped", "running", "queued"], "—"),
    ],
    ids=["almost all", "rounded", "others", "none"],
)
def test_success_rate_counts_what_ended_and_never_rounds_a_failure_away(statuses: list[str], rate: str):
    assert Health([Execution(status=status) for status in statuses]).success == rate


def test_every_policy_is_described():
    job = Job(attempts=3, max_runs=12, slot_count=3, overlap="queue", catch_up="all", at_most_once=True)

    assert policies(job) == [
        ("Retries", "up to 3 attempts; 10 s before the first retry, doubling each time"),
        ("Timeout", "1 minute"),
        ("Overlap", "queue a run until the previous one has ended"),
        ("After downtime", "run every missed run"),
        ("Automatic pause", "after 10 failures in a row"),
        ("Don't retry after a crash", "yes"),
        ("Ends", "after 12 runs (3 so far)"),
    ]
    facts = dict(policies(Job(max_runs=1, pause_after_failures=1)))
    assert (facts["Ends"], facts["Automatic pause"]) == ("after 1 run (0 so far)", "after 1 failure in a row")


@pytest.mark.parametrize(
    ("tab", "words"),
    [
        ("runs", "Any result"),
        ("history", "View all activity"),
        ("why", "Explain"),
        ("agent", "Paste this to any connected agent."),
        ("bogus", "Any result"),
    ],
)
def test_tab_of_the_query_string_is_shown_alone(web: Client, job: Job, tab: str, words: str):
    ExecutionFactory(job=job)
    shown = ["Any result", "View all activity", "Explain</", "Paste this"]

    page = web.get(f"/jobs/{job.public_id}/", {"tab": tab}).content.decode()

    assert words in page
    assert sum(each in page for each in shown) == 1


def test_arguments_are_shown_by_name_and_headers_as_lines(owner: User):
    job = JobFactory.build(
        owner=owner,
        task="webhook",
        args=["https://example.com/"],
        kwargs={"headers": {"Authorization": "hush", "Accept": "text/plain"}, "body": None},
    )

    assert shown_values(job) == [
        ("URL", "https://example.com/"),
        ("Headers", "Authorization: ••••••\nAccept: text/plain"),
    ]


@time_machine.travel("2026-11-15T10:02:00Z", tick=False)
def test_run_on_the_page_is_skipped_and_the_skip_undone(web: Client, owner: User):
    job = JobFactory(owner=owner, timezone="Europe/Berlin", next_run_at=clock.now() + timedelta(minutes=3))
    address = f"/jobs/{job.public_id}/"
    first, second = web.get(address).context["upcoming"][:2]

    answer = web.post(f"{address}skip/", {"slot": second.entry, "next": f"{address}?tab=why"}, follow=True)

    job.refresh_from_db()
    assert job.skips == second.entry == "2026-11-15T10:10:00Z"
    assert answer.redirect_chain[0][0] == f"{address}?tab=why"
    assert "The run on Sun 15 Nov 11:10 will be skipped." in answer.content.decode()
    assert [each.is_skipped for each in answer.context["upcoming"][:3]] == [False, True, False]

    web.post(f"{address}skip/", {"slot": second.entry, "undo": "yes"})

    job.refresh_from_db()
    assert job.skips == ""
    assert web.get(address).context["upcoming"][:2] == [first, second]


@time_machine.travel("2026-11-15T10:02:00Z", tick=False)
def test_stale_menu_skips_the_run_that_it_showed(web: Client, owner: User):
    job = JobFactory(owner=owner, cron="0 9 * * *")
    Job.objects.filter(pk=job.pk).update(next_run_at=job.next_slot(clock.now()))
    shown = web.get(f"/jobs/{job.public_id}/").context["next_run"].entry

    for _ in range(2):
        web.post(f"/jobs/{job.public_id}/skip/", {"slot": shown})

    job.refresh_from_db()
    assert job.skips == shown
    assert web.get(f"/jobs/{job.public_id}/").context["next_run"].entry > shown


@pytest.mark.parametrize("data", [{"slot": "soon"}, {"day": "x"}, {"slot": "2026-11-15T10:05:00"}])
def test_skip_of_something_else_changes_nothing(web: Client, job: Job, data: dict[str, str]):
    answer = web.post(f"/jobs/{job.public_id}/skip/", data, follow=True)

    job.refresh_from_db()
    assert job.skips == ""
    assert "Choose one of the next runs." in answer.content.decode()


def test_stopped_job_cannot_be_run_but_restored(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Old", cron="0 9 * * *")
    services.cancel(Actor(owner), job.public_id)
    address = f"/jobs/{job.public_id}/"

    page = web.get(address).content.decode()
    answer = web.post(f"{address}run/", follow=True)
    assert "Run now" not in page
    assert "Old was stopped permanently. Restore it to run it again." in answer.content.decode()
    assert not Execution.objects.exists()

    assert '<input type="hidden" name="stopped" value="yes">' in page
    web.post("/jobs/restore/", {"job": job.public_id, "stopped": "yes"})

    job.refresh_from_db()
    assert job.status == "pending"


def test_run_without_a_worker_says_that_it_is_queued(web: Client, job: Job):
    words = "Backup is queued. It will start when the worker is back."
    assert words in web.post(f"/jobs/{job.public_id}/run/", follow=True).content.decode()

    ClusterFactory(last_seen_at=clock.now())

    assert "Backup started." in web.post(f"/jobs/{job.public_id}/run/", follow=True).content.decode()


def test_owner_sees_the_signing_keys_of_a_webhook_and_can_change_them(web: Client, owner: User):
    job = JobFactory(owner=owner, task="webhook", kwargs={"url": "https://example.com/"})
    (old,) = services.signing_keys_of(Actor(owner), job, clock.now())

    page = web.get(f"/jobs/{job.public_id}/")
    web.post(f"/jobs/{job.public_id}/rotate-key/", {"shown": "1"})
    changed = web.get(f"/jobs/{job.public_id}/").content.decode()

    assert page["Cache-Control"] == "no-store"
    assert old in page.content.decode()
    assert old in changed
    assert changed.count("whsec_") == 2


def test_page_says_that_the_task_of_a_job_is_not_installed(web: Client, owner: User):
    missing = JobFactory(owner=owner, task="tests.gone")
    installed = JobFactory(owner=owner)

    shown = [web.get(f"/jobs/{job.public_id}/").content.decode() for job in (missing, installed)]

    assert ["Its task is not installed" in page for page in shown] == [True, False]
