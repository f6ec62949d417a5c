"""Calendars at addresses: read again and again, followed by their jobs, and kept while their server is away."""

from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine

from schedules import services
from schedules.engine.upkeep import tasks
from schedules.engine.upkeep.tasks import read_calendars
from schedules.models import Calendar, Event, Job
from schedules.result import Err
from schedules.services import Actor
from schedules.services.installation.secret_key import adopt_secret_key
from schedules.services.installation.setup import ensure_system_job
from schedules.services.people.calendars import (
    CalendarSpec,
    list_calendars,
    preview_calendar,
    set_calendar,
)
from tests.factories import UserFactory
from tests.sink import Answer
from tests.tasks.builtin.conftest import sink
from tests.when.test_ics import file_of

__all__ = ["sink"]
pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
LATER = NOW + timedelta(minutes=15)
HOLIDAY = "SUMMARY:Company day\nDTSTART;VALUE=DATE:20260305"
CLOSED = "SUMMARY:Move of the office\nDTSTART;VALUE=DATE:20260306"


@pytest.fixture(autouse=True)
def at_now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def actor():
    return Actor(UserFactory())


def answers(sink, *events):
    sink.default = Answer(body=file_of(*events).encode(), headers={"Content-Type": "text/calendar"})


def spec(sink, **more):
    return CalendarSpec("work", "ics", address=sink.url("/private-5ecret/basic.ics"), **more)


def job_with_calendar(actor, **fields):
    columns = {"trigger_type": "cron", "cron": "0 8 5 * *", "timezone": "Europe/Berlin", "task": "prompt"}
    made = services.schedule(
        actor, name="x", kwargs={"prompt": "x"}, calendars=["work"], on_closed="next", **columns | fields
    )
    return made.value.job


def test_jobs_follow_an_address_that_changes(actor, sink):
    answers(sink, HOLIDAY)
    shown = set_calendar(actor, spec(sink)).value
    assert shown.days == [(date(2026, 3, 5), "Company day")]
    job = job_with_calendar(actor)
    assert f"{job.next_run_at:%m-%d}" == "03-06"

    answers(sink, HOLIDAY, CLOSED)
    assert read_calendars(LATER) == {"read": 1, "changed": 1, "failed": 0}
    job.refresh_from_db()
    assert f"{job.next_run_at:%m-%d}" == "03-07"

    assert read_calendars(LATER + timedelta(minutes=15)) == {"read": 1, "changed": 0, "failed": 0}


def test_address_is_not_asked_again_before_its_time(actor, sink):
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))

    assert read_calendars(NOW + timedelta(minutes=5))["read"] == 0
    assert len(sink.requests) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=503), "127.0.0.1 answered 503."),
        (Answer(manner="reset"), "Can't reach 127.0.0.1"),
        (Answer(manner="hang"), "no answer within"),
        (Answer(manner="endless"), "sent more than 5 MB, or broke off"),
        (Answer.redirect("http://10.0.0.1/"), "redirects are not followed"),
        (Answer(body=b"<html>Log in"), "This is not an ICS calendar"),
        (Answer(body=b"BEGIN:VCALENDAR\r\nnonsense"), "The ICS calendar is broken"),
    ],
    ids=["failing", "reset", "hanging", "flooding", "redirecting", "login page", "broken"],
)
def test_calendar_is_kept_while_its_address_is_away(actor, sink, answer, words, monkeypatch):
    monkeypatch.setattr(tasks, "TIMEOUT_SECONDS", 0.5)
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))
    before = Calendar.objects.get()

    sink.default = answer
    assert read_calendars(LATER) == {"read": 0, "changed": 0, "failed": 1}

    (shown,) = list_calendars(actor)
    after = Calendar.objects.get()
    assert words in shown.last_error
    assert (after.digest, after.compiled, after.read_at) == (before.digest, before.compiled, NOW)
    assert "5ecret" not in shown.last_error


def test_address_in_a_private_network_is_refused_and_nothing_is_stored(actor, sink, settings):
    settings.CRONTY_OUTBOUND_ALLOW = []

    for address in (
        sink.url("/x.ics"),
        "https://127.0.0.1/x.ics",
        "https://169.254.169.254/latest/meta-data",
    ):
        answer = set_calendar(actor, CalendarSpec("work", "ics", address=address))
        assert isinstance(answer, Err)
        assert list(answer.errors) == ["address"]

    assert not Calendar.objects.exists()
    assert not sink.requests


def test_host_that_is_no_longer_allowed_is_not_asked_again(actor, sink, settings):
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))
    settings.CRONTY_OUTBOUND_ALLOW = []

    assert read_calendars(LATER)["failed"] == 1
    assert len(sink.requests) == 1


def test_address_is_stored_encrypted_and_never_shown(actor, sink):
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))

    row = Calendar.objects.get()
    texts = [str(getattr(row, field.attname)) for field in Calendar._meta.fields]
    event = Event.objects.get(verb="set calendar")
    assert not any("5ecret" in text for text in [*texts, str(event.after), str(list_calendars(actor))])
    assert list_calendars(actor)[0].source == "127.0.0.1"
    assert adopt_secret_key() == []
    assert read_calendars(LATER)["read"] == 1


def test_calendar_keeps_its_address_when_something_else_changes(actor, sink):
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))

    set_calendar(actor, CalendarSpec("work", "ics", closes=False))

    assert len(sink.requests) == 2
    assert read_calendars(LATER)["read"] == 1
    assert not Calendar.objects.get().closes


def test_preview_stores_nothing(actor, sink):
    answers(
        sink,
        HOLIDAY,
        "SUMMARY:Standup\nDTSTART;TZID=Europe/Berlin:20260303T090000\nDURATION:PT15M",
        "DTSTART:x",
    )

    shown = preview_calendar(actor, spec(sink, timezone="Europe/Berlin")).value

    assert shown.days == [(date(2026, 3, 3), "09:00–09:15 Standup"), (date(2026, 3, 5), "Company day")]
    assert shown.unread == 1
    assert not Calendar.objects.exists()


def test_file_is_read_once_and_continued_without_being_given_again(actor):
    text = file_of("SUMMARY:Birthday\nDTSTART;VALUE=DATE:19800801\nRRULE:FREQ=YEARLY")
    set_calendar(actor, CalendarSpec("family", "ics", file_name="family.ics", file_text=text))

    set_calendar(actor, CalendarSpec("family", "ics", closes=False))

    (shown,) = list_calendars(actor)
    assert shown.source == "family.ics"
    assert [str(day) for day, _ in shown.days] == ["2026-08-01", "2027-08-01", "2028-08-01"]
    assert read_calendars(LATER)["read"] == 0


def test_neither_address_nor_file_is_an_error_at_the_address(actor):
    answer = set_calendar(actor, CalendarSpec("work", "ics"))

    assert answer.errors == {"address": ["Enter the address of an ICS calendar, or choose a file."]}


def test_job_that_reads_addresses_exists_once_there_is_one(actor, sink):
    def reading():
        return Job.objects.filter(task="read_calendar_addresses", status="pending", deleted_at=None)

    ensure_system_job()
    assert not reading().exists()
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))
    set_calendar(actor, spec(sink))
    assert reading().get().cron == "*/15 * * * *"

    reading().update(deleted_at=NOW)
    ensure_system_job()
    assert reading().count() == 1


def test_change_by_its_owner_while_the_address_is_asked_wins(actor, sink, monkeypatch):
    answers(sink, HOLIDAY)
    set_calendar(actor, spec(sink))
    answers(sink, HOLIDAY, CLOSED)
    compile_calendar = tasks.compile_calendar

    def compile_late(row, now, text):
        Calendar.objects.update(updated_at=now, closes=False)
        return compile_calendar(row, now, text)

    monkeypatch.setattr(tasks, "compile_calendar", compile_late)
    before = Calendar.objects.get().compiled

    read_calendars(LATER)

    assert (Calendar.objects.get().compiled, Calendar.objects.get().closes) == (before, False)
