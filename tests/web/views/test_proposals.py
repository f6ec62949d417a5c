"""Plans of agents on the pages: what they show, and the buttons that confirm and discard."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import services
from schedules.models import Event, Job
from schedules.services import Actor
from tests.factories import staff_with
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
