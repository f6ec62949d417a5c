"""The activity page and the trash."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import clock, services
from schedules.models import Event, Job
from schedules.services import Actor
from tests.factories import JobFactory
from tests.web.html import html_of


@pytest.fixture
def edited(actor: Actor, owner: User) -> Job:
    job: Job = JobFactory(owner=owner, name="Before")
    services.edit(actor, job.public_id, name="After")
    return job


def test_events_are_listed_below_their_days(web: Client, edited: Job, time_machine):
    Event.objects.update(at=clock.now() - timedelta(days=1))
    services.edit(Actor(edited.owner), edited.public_id, name="Later")

    page = html_of(web.get("/activity/"))

    assert page.index("Today, ") < page.index("Later") < page.index("Yesterday, ") < page.index("Before")


def test_events_are_filtered_by_day(web: Client, edited: Job):
    Event.objects.update(at=datetime(2026, 2, 4, 12, tzinfo=UTC))
    for asked, count in [
        ({"from": "2026-02-04"}, 1),
        ({"from": "2026-02-04", "to": "2026-02-04"}, 1),
        ({"to": "2026-02-03"}, 0),
        ({"from": "2026-02-05"}, 0),
        ({"from": "soon", "to": "0001-01-01x"}, 1),
    ]:
        assert len(web.get("/activity/", asked).context["listed"].rows) == count


def test_events_are_filtered_by_the_query_string(web: Client, edited: Job):
    for asked, count in (
        ({"verb": "edit"}, 1),
        ({"verb": "delete"}, 0),
        ({"actor": "OLGA"}, 1),
        ({"actor": "olg"}, 0),
        ({"door": "mcp"}, 0),
        ({"job": "x"}, 0),
    ):
        answer = web.get("/activity/", asked)

        assert len(answer.context["listed"].rows) == count, asked
        assert ("No events found." in answer.content.decode()) == (count == 0)


def test_staff_see_the_events_of_everybody(staff: Client, other: Client, edited: Job):
    assert len(staff.get("/activity/").context["listed"].rows) == 1
    assert len(other.get("/activity/").context["listed"].rows) == 0


def test_deleted_job_is_restored_from_the_trash(web: Client, edited: Job):
    web.post(f"/jobs/{edited.public_id}/delete/")
    assert "After" in web.get("/trash/").content.decode()

    answer = web.post("/jobs/restore/", {"job": edited.public_id, "next": "/trash/"})

    assert answer["Location"] == "/trash/"
    assert "The trash is empty" in web.get("/trash/").content.decode()


def test_filter_suggests_the_agents_of_a_person_and_staff_everybody(
    web: Client, staff: Client, owner: User, stranger: User
):
    services.issue_token(owner, name="laptop")

    assert web.get("/activity/").context["names"] == ["laptop", owner.get_username()]
    assert stranger.get_username() in staff.get("/activity/").context["names"]
