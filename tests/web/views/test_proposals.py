"""Plans of agents on the pages: what they show, and the buttons that confirm and discard."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, services
from schedules.models import Event, Job
from schedules.services import Actor
from tests.factories import JobFactory, staff_with
from tests.web.html import html_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def agent(owner: User) -> Actor:
    return Actor(owner, Event.Door.MCP, name="laptop", confirm="prompts")


def propose(agent: Actor, name: str = "Check", **fields: object) -> Job:
    schedule = {"trigger_type": "cron", "cron": "0 12 * * *", "timezone": "UTC"}
    call = {"task": "prompt", "kwargs": {"prompt": f"Look at {HOSTILE}"}}
    return services.schedule(agent, **({"name": name, **call, **schedule} | fields)).value.job


def entry(job: Job) -> str:
    return f"{job.public_id}:{job.revision}"


def test_jobs_page_shows_the_plan_with_one_button_for_all(web: Client, agent: Actor):
    jobs = [propose(agent), propose(agent, "Second")]

    page = html_of(web.get("/"))

    assert "Waiting for confirmation" in page
    assert "Confirm all 2" in page
    for shown in ("laptop", "Every day at 12:00", "Next runs", "waits in the inbox for an agent"):
        assert shown in page
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)" in page
    web.post("/jobs/confirm/", {"job": [entry(job) for job in jobs]})
    assert set(Job.objects.values_list("status", flat=True)) == {"pending"}
    assert "Waiting for confirmation" not in html_of(web.get("/"))


def test_confirmation_can_be_undone_from_its_message(web: Client, agent: Actor):
    job = propose(agent)

    page = html_of(web.post("/jobs/confirm/", {"job": entry(job)}, follow=True))

    assert "Check confirmed." in page
    assert 'value="confirm"' in page
    web.post("/activity/undo/", {"verb": "confirm", "job": job.public_id})
    job.refresh_from_db()
    assert (job.status, job.proposed_by) == ("paused", "laptop")
    activity = html_of(web.get("/activity/"))
    assert "confirmed" in activity


def test_job_page_shows_the_plan_instead_of_resume_and_run(web: Client, agent: Actor):
    job = propose(agent)

    page = html_of(web.get(f"/jobs/{job.public_id}/"))

    assert "Waiting for confirmation" in page
    assert f'value="{entry(job)}"' in page
    assert f"/jobs/{job.public_id}/resume/" not in page
    assert f"/jobs/{job.public_id}/run/" not in page
    assert "Run now" not in page


def test_job_that_changed_since_it_was_shown_is_not_confirmed(web: Client, agent: Actor):
    job = propose(agent)
    seen = entry(job)
    services.edit(agent, job.public_id, kwargs={"prompt": "Another"})

    page = html_of(web.post("/jobs/confirm/", {"job": seen}, follow=True))

    assert "Somebody else changed this job meanwhile" in page
    job.refresh_from_db()
    assert job.status == "paused"


def test_wrong_requests_change_nothing(web: Client, agent: Actor):
    job = propose(agent)
    for entries in [[], ["nonsense"], ["x:1"], [":"], ["job:" + "9" * 40]]:
        assert web.post("/jobs/confirm/", {"job": entries}).status_code == 303
        assert web.get("/jobs/confirm/").status_code == 405

        job.refresh_from_db()
        assert job.status == "paused"


def test_job_whose_time_has_passed_says_so_and_cannot_be_confirmed(web: Client, agent: Actor):
    job = propose(agent, trigger_type="once", cron="", run_at=clock.now() + timedelta(hours=1))
    past = clock.now() - timedelta(minutes=1)
    Job.objects.filter(pk=job.pk).update(run_at=past, paused_at=past - timedelta(hours=1))

    page = html_of(web.get("/"))

    assert "Its time passed before anybody confirmed it" in page
    assert f'aria-label="Confirm {job.name}"' not in page
    assert f'aria-label="Discard {job.name}"' in page


def test_plans_of_others_are_shown_to_staff_without_buttons_they_may_not_use(client: Client, agent: Actor):
    job = propose(agent)
    viewer = staff_with("view_job")
    client.force_login(viewer)

    page = html_of(client.get("/"))
    client.post("/jobs/confirm/", {"job": entry(job)})

    assert "Waiting for confirmation" in page
    assert f'aria-label="Confirm {job.name}"' not in page
    job.refresh_from_db()
    assert job.status == "paused"


def test_filtered_list_has_no_plans(web: Client, agent: Actor, owner: User):
    propose(agent)
    JobFactory(owner=owner, name="Backup")

    assert "Waiting for confirmation" not in html_of(web.get("/?q=Backup"))


def test_token_is_created_with_the_choice(web: Client, owner: User):
    web.post("/connect/", {"name": "desk", "confirm": "prompts"})

    assert owner.cronty_tokens.get().confirm == "prompts"
    assert "you confirm its prompts and commands" in html_of(web.get("/connect/"))
