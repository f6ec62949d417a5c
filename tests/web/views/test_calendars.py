"""The page of calendars, and calendars in the form of a job."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from schedules.models import Calendar, Job
from schedules.services import Actor
from schedules.services.people.calendars import CalendarSpec, set_calendar
from tests.factories import UserFactory
from tests.when.test_ics import file_of

pytestmark = pytest.mark.django_db

BAVARIA = {
    "name": "Bavaria",
    "kind": "holidays",
    "place": "DE-BY",
    "categories": "public, catholic",
    "closes": "yes",
}
JOB = {
    "name": "Stand up",
    "when": "phrase",
    "phrase": "every weekday at 9:00",
    "timezone": "Europe/Berlin",
    "task": "prompt",
    "prompt-prompt": "Stand up",
}


@pytest.fixture
def person(client):
    user = UserFactory()
    client.force_login(user)
    return user


def test_dates_are_shown_before_a_calendar_is_saved(client, person):
    shown = client.post("/settings/calendars/", BAVARIA | {"then": "preview"})
    assert shown.status_code == 200
    assert b"Assumption Day" in shown.content
    assert not Calendar.objects.exists()

    saved = client.post("/settings/calendars/", BAVARIA | {"then": "save"}, follow=True)
    assert b"public holidays in Bavaria (also catholic)" in saved.content
    row = Calendar.objects.get()
    changed = client.get(f"/settings/calendars/?calendar={row.pk}").content.decode()
    assert 'value="public, catholic"' in changed

    client.post(f"/settings/calendars/{row.pk}/delete/")
    assert not Calendar.objects.exists()


def test_mistake_is_shown_at_its_field(client, person):
    answer = client.post(
        "/settings/calendars/", {"name": "x", "kind": "hours", "lines": "someday", "closes": "yes"}
    )

    assert answer.status_code == 422
    assert "is not a day of the week" in answer.context["form"].errors["lines"][0]


def test_job_is_created_and_edited_with_calendars(client, person):
    set_calendar(Actor(person), CalendarSpec("weekends", "hours", lines=["sat,sun"]))
    form = JOB | {"phrase": "every day at 9:00", "calendars": ["weekends"], "on_closed": "next"}

    preview = client.get("/jobs/preview/", form)
    assert b"at the next open time if closed by weekends" in preview.content
    client.post("/jobs/new/", form)
    job = Job.objects.get()
    assert (job.calendars, job.on_closed) == (["weekends"], "next")
    page = client.get(f"/jobs/{job.public_id}/edit/").content.decode()
    assert 'value="weekends" id="id_calendars_0" checked' in page

    client.post(
        f"/jobs/{job.public_id}/edit/",
        form | {"calendars": [], "on_closed": "skip", "revision": job.revision},
    )
    job.refresh_from_db()
    assert (job.calendars, job.closed_by) == ([], "")


def test_phrase_names_a_calendar(client, person):
    set_calendar(Actor(person), CalendarSpec("DE-BY", "holidays", "DE-BY"))

    client.post("/jobs/new/", JOB | {"phrase": "every weekday at 9:00 except public holidays in Bavaria"})
    refused = client.post(
        "/jobs/new/", JOB | {"phrase": "every weekday at 9:00 except public holidays in Atlantis"}
    )

    job = Job.objects.get()
    assert (job.cron, job.calendars) == ("0 9 * * 1-5", ["DE-BY"])
    assert refused.status_code == 422
    assert "Choose one of: DE-BY" in refused.context["form"].errors["phrase"][0]


def test_ics_file_is_uploaded_shown_and_starts_jobs(client, person):
    text = file_of(
        "SUMMARY:Standup\nDTSTART:20990303T080000Z",
        "SUMMARY:Dance\nDTSTART;VALUE=DATE:20260801\nRRULE:FREQ=YEARLY",
    )
    form = {"name": "Work", "kind": "ics", "closes": "yes"}

    def file():
        return SimpleUploadedFile("work.ics", text.encode(), "text/calendar")

    preview = client.post("/settings/calendars/", form | {"file": file(), "then": "preview"})
    assert b"Dance" in preview.content
    saved = client.post("/settings/calendars/", form | {"file": file(), "then": "save"}, follow=True)
    assert "work.ics" in saved.content.decode()
    refused = client.post("/settings/calendars/", form | {"name": "x"})
    assert "address of an ICS calendar" in refused.context["form"].errors["address"][0]

    phrase = '2 hours before every event "dance" in calendar work'
    preview = client.get("/jobs/preview/", JOB | {"phrase": phrase})
    assert b"2 hours before every event" in preview.content
    unknown = client.get("/jobs/preview/", JOB | {"phrase": "30 minutes before every event in calendar play"})
    assert "There is no calendar" in unknown.content.decode()
    client.post("/jobs/new/", JOB | {"phrase": phrase})
    job = Job.objects.get()
    assert job.cron == '@event 2h before "dance" in Work'
    page = client.get(f"/jobs/{job.public_id}/edit/").content.decode()
    assert "2 hours before every event &quot;dance&quot; in calendar Work" in page
    assert client.get(f"/jobs/{job.public_id}/").status_code == 200
