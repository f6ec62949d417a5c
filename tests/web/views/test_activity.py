"""The activity page and the trash."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, engine, services
from schedules.models import Event, Job
from schedules.services import Actor
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of


@pytest.fixture
def edited(actor: Actor, owner: User) -> Job:
    job: Job = JobFactory(owner=owner, name="Before")
    services.edit(actor, job.public_id, name="After")
    return job


def test_change_is_shown_with_before_and_after(web: Client, edited: Job):
    page = html_of(web.get("/activity/"))

    assert '<span class="mut">Name</span> <del dir="auto">Before</del>' in page
    assert '<ins dir="auto">After</ins>' in page


def test_events_are_listed_below_their_days(web: Client, edited: Job, time_machine):
    Event.objects.update(at=clock.now() - timedelta(days=1))
    services.edit(Actor(edited.owner), edited.public_id, name="Later")

    page = html_of(web.get("/activity/"))

    assert page.index("Today, ") < page.index("Later") < page.index("Yesterday, ") < page.index("Before")


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"from": "2026-02-04"}, 1),
        ({"from": "2026-02-04", "to": "2026-02-04"}, 1),
        ({"to": "2026-02-03"}, 0),
        ({"from": "2026-02-05"}, 0),
        ({"from": "soon", "to": "0001-01-01x"}, 1),
    ],
)
def test_events_are_filtered_by_day(web: Client, edited: Job, asked: dict[str, str], count: int):
    Event.objects.update(at=datetime(2026, 2, 4, 12, tzinfo=UTC))

    assert len(web.get("/activity/", asked).context["listed"].rows) == count


def test_filter_suggests_the_agents_of_a_person_and_staff_everybody(
    web: Client, staff: Client, owner: User, stranger: User
):
    services.issue_token(owner, name="laptop")

    assert web.get("/activity/").context["names"] == ["laptop", owner.get_username()]
    assert stranger.get_username() in staff.get("/activity/").context["names"]


def test_job_that_ended_with_its_pause_is_shown_as_finished(web: Client, owner: User):
    now = clock.now()
    JobFactory(owner=owner, name="Backup", paused=True, paused_until=now, max_runs=1, slot_count=1)
    engine.sweep(now)

    page = html_of(web.get("/activity/", {"verb": "finish"}))

    assert ">engine</b> finished <a" in page
    assert '<option value="finish" selected>' in page


@pytest.mark.parametrize(("asked", "is_found"), [({"actor": "OLGA"}, True), ({"actor": "olg"}, False)])
def test_events_are_found_by_the_name_of_a_person_in_any_case(
    web: Client, edited: Job, asked: dict[str, str], is_found: bool
):
    answer = web.get("/activity/", asked)

    assert bool(answer.context["listed"].rows) == is_found
    assert ("No events found." in answer.content.decode()) == (not is_found)
    assert "Nothing yet." not in answer.content.decode()


def test_actions_are_offered_in_the_words_of_the_events(web: Client, owner: User):
    page = html_of(web.get("/activity/"))

    assert (
        '<option value="cancel">Stopped</option> <option value="delete">Moved to the trash</option>' in page
    )
    assert '<option value="stop">Stopped a run</option>' in page


def test_released_prompt_is_shown(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Briefing", task="prompt", kwargs={"prompt": "Summarise."})
    run = ExecutionFactory(job=job, status="waiting", attempt=1, leased_to="laptop")
    web.post(f"/inbox/{run.pk}/release/")

    page = html_of(web.get("/activity/", {"verb": "release"}))

    assert ">olga</b> released a prompt for <a" in page
    assert '<option value="release" selected>' in page


def test_door_of_agents_is_shown_as_mcp(web: Client, agent: Actor, owner: User):
    services.pause(agent, JobFactory(owner=owner).public_id)

    page = html_of(web.get("/activity/"))

    assert ">MCP · <time" in page
    assert '<option value="mcp">MCP</option>' in page


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"verb": "edit"}, 1),
        ({"verb": "delete"}, 0),
        ({"actor": "olga"}, 1),
        ({"door": "mcp"}, 0),
        ({"job": "x"}, 0),
    ],
)
def test_events_are_filtered_by_the_query_string(web: Client, edited: Job, asked: dict[str, str], count: int):
    assert len(web.get("/activity/", asked).context["listed"].rows) == count


def test_staff_see_the_events_of_everybody(staff: Client, other: Client, edited: Job):
    assert len(staff.get("/activity/").context["listed"].rows) == 1
    assert len(other.get("/activity/").context["listed"].rows) == 0


def test_deleted_job_is_restored_from_the_trash(web: Client, edited: Job):
    web.post(f"/jobs/{edited.public_id}/delete/")
    assert "After" in web.get("/trash/").content.decode()

    answer = web.post("/jobs/restore/", {"job": edited.public_id, "next": "/trash/"})

    assert answer["Location"] == "/trash/"
    assert "The trash is empty" in web.get("/trash/").content.decode()


def test_restoring_several_jobs_reports_those_that_are_gone(web: Client, edited: Job):
    services.delete(Actor(edited.owner), edited.public_id)

    page = web.post("/jobs/restore/", {"job": [edited.public_id, "job_1_1"]}, follow=True)

    edited.refresh_from_db()
    assert edited.deleted_at is None
    assert page.status_code == 200
    assert "This job no longer exists." in page.text


def test_restoring_an_unknown_job_is_a_404(web: Client):
    assert web.post("/jobs/restore/", {"job": "job_1_1"}).status_code == 404
