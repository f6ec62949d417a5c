"""The trail, and the trash."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from schedules import services
from schedules.models import Job
from schedules.services import Actor
from tests.factories import JobFactory


@pytest.fixture
def edited(actor: Actor, owner: User) -> Job:
    job: Job = JobFactory(owner=owner, name="Before")
    services.edit(actor, job.public_id, name="After")
    return job


def test_change_is_shown_with_before_and_after(web: Client, edited: Job):
    page = web.get("/activity/").content.decode()

    assert "Before</del> → After" in page


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
def test_trail_is_narrowed_by_the_address(web: Client, edited: Job, asked: dict[str, str], count: int):
    assert len(web.get("/activity/", asked).context["listed"].rows) == count


def test_staff_see_everybodys_trail(staff: Client, other: Client, edited: Job):
    assert len(staff.get("/activity/").context["listed"].rows) == 1
    assert len(other.get("/activity/").context["listed"].rows) == 0


def test_deleted_job_is_restored_from_the_trash(web: Client, edited: Job):
    web.post(f"/jobs/{edited.public_id}/delete/")
    assert "After" in web.get("/trash/").content.decode()

    answer = web.post("/jobs/restore/", {"job": edited.public_id, "next": "/trash/"})

    assert answer["Location"] == "/trash/"
    assert "The trash is empty" in web.get("/trash/").content.decode()


def test_restoring_what_is_not_there_is_a_404(web: Client):
    assert web.post("/jobs/restore/", {"job": "job_1_1"}).status_code == 404
