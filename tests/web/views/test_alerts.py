"""Alerts on the page of channels and on that of the job: what lasts, whether the message arrived, and snoozing."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.test import Client

from schedules import clock
from schedules.models import Incident, Job
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.jobs import new_public_id
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of

HOUR = timedelta(hours=1)


def incident_of(job: Job, **delivery: str) -> Incident:
    now = clock.now()
    notice = JobFactory(
        owner=job.owner,
        public_id=new_public_id(NOTICE_PREFIX, now),
        task="notify",
        kwargs={"message": "x", "topic": "t"},
    )
    if delivery:
        ExecutionFactory(job=notice, attempt=1, **delivery)
    return Incident.objects.create(
        owner=job.owner,
        job=job,
        kind=Incident.Kind.FAILING,
        subject=f"job {job.pk}",
        name=job.name,
        opened_at=now - HOUR,
        told=1,
        told_at=now,
        notice=notice,
    )


def test_alert_that_was_not_delivered_is_said_where_people_look(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Backup")
    ExecutionFactory(job=job, status="succeeded")
    incident_of(job, status="failed", error="ntfy answered 403: forbidden.")

    for page in ("/notifications/", f"/jobs/{job.public_id}/?tab=history"):
        assert "It was not delivered: ntfy answered 403: forbidden." in html_of(web.get(page))


def test_alert_is_snoozed_by_its_owner_alone(web: Client, other: Client, owner: User):
    incident = incident_of(JobFactory(owner=owner, name="Backup"), status="succeeded")

    assert "Backup" not in html_of(other.get("/notifications/"))
    assert other.post("/notifications/", {"incident": str(incident.pk)}).status_code == 404
    incident.refresh_from_db()
    assert incident.snoozed_until is None

    web.post("/notifications/", {"incident": str(incident.pk)})
    incident.refresh_from_db()
    assert incident.snoozed_until is not None
    assert "Snoozed until" in html_of(web.get("/notifications/"))


def test_page_lists_what_was_sent(web: Client, owner: User):
    incident = incident_of(JobFactory(owner=owner))
    message = {
        "at": clock.now().isoformat(),
        "title": "A job failed",
        "text": "<b>no",
        "place": "topic alarm",
    }
    Incident.objects.filter(pk=incident.pk).update(sent=[message])

    html = html_of(web.get("/notifications/"))

    assert "A job failed" in html
    assert "&lt;b&gt;no" in html
    assert "to the topic alarm" in html


def test_alerts_cost_no_query_each(web: Client, owner: User, django_assert_max_num_queries):
    for _ in range(10):
        incident_of(JobFactory(owner=owner), status="failed", error="no")

    with django_assert_max_num_queries(24):
        web.get("/notifications/")
