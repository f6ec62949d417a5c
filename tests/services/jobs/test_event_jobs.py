"""Jobs that run before or after the events of a calendar."""

from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine

from schedules import engine, services
from schedules.engine import clusters
from schedules.models import Execution, Job
from schedules.result import Code, Err, Ok
from schedules.services import Actor
from schedules.services.jobs.forecasts import next_runs_of, preview_of, words_of
from schedules.services.people.calendars import CalendarSpec, delete_calendar, set_calendar
from schedules.when.unplanned import UNKNOWN_START
from tests.factories import ClusterFactory, UserFactory
from tests.when.test_ics import file_of

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
STANDUP = "SUMMARY:Standup\nDTSTART;TZID=Europe/Berlin:20260303T090000\nDURATION:PT15M"
REVIEW = "SUMMARY:Review\nDTSTART;TZID=Europe/Berlin:20260304T140000\nDURATION:PT1H"


@pytest.fixture(autouse=True)
def at_now():
    with time_machine.travel(NOW, tick=False) as clock:
        yield clock


@pytest.fixture
def actor():
    return Actor(UserFactory())


def calendar_of(actor, *events, name="Work"):
    return set_calendar(actor, CalendarSpec(name, "ics", file_name="w.ics", file_text=file_of(*events)))


def schedule(actor, cron="@event 30m before any in work", **fields):
    columns = {"trigger_type": "cron", "timezone": "Europe/Berlin", "task": "prompt", "name": "Prepare"}
    return services.schedule(actor, cron=cron, kwargs={"prompt": "Prepare"}, **columns | fields)


def shown(moments):
    return [f"{moment:%m-%d %H:%M}" for moment in moments]


def test_job_runs_before_each_event_and_then_waits_for_the_next_one(actor, at_now):
    calendar_of(actor, STANDUP, REVIEW)
    cluster = ClusterFactory()
    job = schedule(actor).value.job
    assert job.cron == "@event 30m before any in Work"
    assert words_of(job) == "30 minutes before every event in calendar Work"
    assert shown(next_runs_of(job, NOW)) == ["03-03 07:30", "03-04 12:30"]

    fired = []
    while (due := engine.wake_up_at(NOW)) and due < NOW + timedelta(days=30):
        at_now.move_to(due)
        engine.claim_runs(cluster.pk, due, 10)
        Execution.objects.live().update(status="succeeded", finished_at=due, lease_until=None)
        fired.append(due)

    assert shown(fired) == ["03-03 07:30", "03-04 12:30"]
    job.refresh_from_db()
    assert (job.status, job.next_run_at) == ("pending", UNKNOWN_START)
    later = preview_of(job, NOW + timedelta(days=10))
    assert later.waits_for == "an event that matches"


def test_job_follows_events_that_are_added_moved_and_deleted(actor):
    calendar_of(actor, REVIEW)
    job = schedule(actor).value.job
    assert shown([job.next_run_at]) == ["03-04 12:30"]

    for events, following in (
        ([STANDUP, REVIEW], "03-03 07:30"),
        ([STANDUP.replace("T090000", "T110000"), REVIEW], "03-03 09:30"),
        ([REVIEW], "03-04 12:30"),
        ([], "01-01 00:00"),
    ):
        calendar_of(actor, *events)
        job.refresh_from_db()
        assert shown([job.next_run_at]) == [following]
    assert job.next_run_at == UNKNOWN_START


def test_event_that_began_already_starts_nothing(actor):
    calendar_of(actor, "SUMMARY:Late\nDTSTART:20260302T094500Z")

    job = schedule(actor).value.job

    assert job.next_run_at == UNKNOWN_START


def test_job_with_events_leaves_out_what_another_calendar_closes(actor):
    calendar_of(actor, STANDUP, REVIEW)
    set_calendar(actor, CalendarSpec("away", "dates", lines=["2026-03-03 Trip"]))

    job = schedule(actor, calendars=["away"]).value.job

    assert shown(next_runs_of(job, NOW)) == ["03-04 12:30"]
    why = services.why(actor, job.public_id, date(2026, 3, 3), NOW).value
    assert why.explanation == "It won't run then: closed: Trip, calendar away."
    assert words_of(job) == "30 minutes before every event in calendar Work, except away"


def test_holidays_are_events_too(actor):
    set_calendar(actor, CalendarSpec("DE-BY", "holidays", "DE-BY"))

    job = schedule(actor, "@event 1d before any in DE-BY").value.job

    assert shown(next_runs_of(job, NOW, 2)) == ["04-01 22:00", "04-04 22:00"]


@pytest.mark.parametrize(
    ("fields", "column", "words"),
    [
        (
            {"cron": "@event before any in play"},
            "cron",
            "There is no calendar 'play'. Choose from: Work, office, or name public holidays, like DE or DE-BY.",
        ),
        ({"cron": "@event before any in office"}, "cron", "has weekly hours and no events"),
        ({"cron": "@event sometimes"}, "cron", "Write how long before"),
        ({"calendars": ["office"], "on_closed": "next"}, "on_closed", "can only skip"),
        ({"spread": timedelta(minutes=5)}, "spread", "no random delay"),
    ],
)
def test_schedule_that_cannot_be_is_refused(actor, fields, column, words):
    calendar_of(actor, STANDUP)
    set_calendar(actor, CalendarSpec("office", "hours", lines=["mon-fri 09:00-17:00"], closes=False))

    answer = schedule(actor, **fields)

    assert isinstance(answer, Err)
    assert words in answer.errors[column][0]
    assert not Job.objects.exists()


def test_calendar_of_somebody_else_gives_no_events(actor):
    calendar_of(Actor(UserFactory()), STANDUP)

    assert "There is no calendar" in schedule(actor).errors["cron"][0]


def test_calendar_whose_events_start_a_job_cannot_be_deleted(actor):
    calendar_of(actor, STANDUP)
    job = schedule(actor).value.job

    assert delete_calendar(actor, "Work").code == Code.CALENDAR_IN_USE
    assert isinstance(services.edit(actor, job.public_id, trigger_type="cron", cron="0 9 * * *"), Ok)
    job.refresh_from_db()
    assert job.closed_by == ""
    assert delete_calendar(actor, "Work") == Ok("Work")


def test_edit_to_events_and_back_plans_anew(actor):
    calendar_of(actor, STANDUP)
    job = schedule(actor, "0 9 * * *").value.job

    edited = services.edit(actor, job.public_id, cron='@event 10m after "stand" in work').value

    assert edited.cron == '@event 10m after "stand" in Work'
    assert shown([edited.next_run_at]) == ["03-03 08:25"]


def test_title_that_names_a_start_of_the_machine_is_not_run_then(actor):
    calendar_of(actor)
    schedule(actor, '@event at "@reboot" in Work')

    clusters._arm(NOW)

    assert Job.objects.get().next_run_at == UNKNOWN_START
