"""The welcome page and the demo jobs."""

from django.contrib.auth.models import User
from django.test import Client

from schedules import services
from schedules.models import Job, Profile
from schedules.services import Actor
from tests.factories import JobFactory

ANSWERS = {"timezone": "Asia/Tokyo", "failure_topic": "my-phone", "message": "Hello!"}


def test_welcome_form_saves_settings_and_schedules_a_reminder(web: Client, owner: User):
    answer = web.post("/welcome/", ANSWERS)

    job, profile = Job.objects.get(), Profile.objects.get(user=owner)
    assert answer["Location"] == f"/jobs/{job.public_id}/"
    assert job.kwargs == {"topic": "my-phone", "message": "Hello!"}
    assert (profile.timezone, profile.failure_topic) == ("Asia/Tokyo", "my-phone")


def test_all_errors_are_shown_beside_their_fields(web: Client):
    wrong = {"timezone": "Moon/Base", "failure_topic": "no good", "message": ""}

    answer = web.post("/welcome/", wrong)

    page = answer.content.decode()
    assert answer.status_code == 422
    assert ">Unknown time zone &#x27;Moon/Base&#x27;. Enter a city or a name like Europe/Berlin.</p>" in page
    assert ">Use 1 to 64 letters, digits, - and _.</p>" in page
    assert ">This field is required.</p>" in page
    assert 'value="Moon/Base"' in page
    assert not Job.objects.exists()


def test_demo_jobs_can_be_added_and_removed(web: Client, owner: User):
    mine = JobFactory(owner=owner, name="Mine", tags=["demo"])

    web.post("/demo/")
    assert Job.objects.kept().count() == 4

    web.post("/demo/", {"verb": "remove"})
    assert list(Job.objects.kept()) == [mine]


def test_renamed_demo_job_is_removed_with_the_others(web: Client, actor: Actor):
    web.post("/demo/")
    services.edit(actor, Job.objects.all()[0].public_id, name="Mine now", tags=[])

    web.post("/demo/", {"verb": "remove"})

    assert not Job.objects.kept().exists()


def test_demo_jobs_send_nothing_unless_resumed(web: Client):
    web.post("/demo/")

    assert {job.task for job in Job.objects.armed()} == {"prompt"}
