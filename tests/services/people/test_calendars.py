"""Calendars of a person: made from rules, shown before they are saved, and followed by the jobs that use them."""

from datetime import UTC, date, datetime

import pytest
import time_machine
from django.db import connection

from schedules import engine, services
from schedules.engine.upkeep import calendars
from schedules.models import Calendar, Event, Job
from schedules.result import Code, Err, Ok
from schedules.services import Actor
from schedules.services.jobs.forecasts import next_runs_of, preview_of, words_of
from schedules.services.jobs.undo import undo
from schedules.services.people.calendars import (
    MAX_CALENDARS,
    CalendarSpec,
    delete_calendar,
    list_calendars,
    preview_calendar,
    set_calendar,
)
from schedules.when.calendar_rules import holidays_of
from tests.factories import UserFactory

NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
BERLIN = "Europe/Berlin"
BAVARIA = CalendarSpec("Bavaria", "holidays", "DE-BY")
CATHOLIC = CalendarSpec("DE-BY catholic", "holidays", "DE-BY", ["public", "catholic"])
WEEKENDS = CalendarSpec("weekends", "hours", lines=["sat,sun"])

# By hand, from the laws and the official lists of each country.
HOLIDAYS_OF_2026 = {
    ("DE", "BY", ("public",)): "01-01 01-06 04-03 04-06 05-01 05-14 05-25 06-04 10-03 11-01 12-25 12-26",
    ("DE", "BY", ("public", "catholic")): (
        "01-01 01-06 04-03 04-06 05-01 05-14 05-25 06-04 08-15 10-03 11-01 12-25 12-26"
    ),
    ("FR", "", ("public",)): "01-01 04-06 05-01 05-08 05-14 05-25 07-14 08-15 11-01 11-11 12-25",
    ("GB", "ENG", ("public",)): "01-01 04-03 04-06 05-04 05-25 08-31 12-25 12-26 12-28",
    ("US", "", ("public",)): "01-01 01-19 02-16 05-25 06-19 07-03 07-04 09-07 10-12 11-11 11-26 12-25",
}


@pytest.fixture(autouse=True)
def at_now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def actor(db) -> Actor:
    return Actor(UserFactory())


def scheduled(actor, **fields) -> Job:
    columns = {
        "trigger_type": "cron",
        "cron": "0 9 * * *",
        "timezone": BERLIN,
        "task": "prompt",
        "name": "Stand up",
    }
    columns["kwargs"] = {"prompt": "Stand up"}
    match services.schedule(actor, **columns | fields):
        case Ok(made):
            return made.job
        case error:
            raise AssertionError(error)


@pytest.mark.parametrize("place", HOLIDAYS_OF_2026)
def test_public_holidays_are_those_of_the_official_lists(place):
    found = holidays_of(*place, NOW.date().replace(month=1, day=1), NOW.date().replace(month=12, day=31))

    assert " ".join(day[5:] for day in found) == HOLIDAYS_OF_2026[place]


def test_15_august_is_a_holiday_in_bavaria_only_with_its_category(actor, db):
    days = [
        {day.isoformat(): title for day, title in preview_calendar(actor, spec).value.days}
        for spec in (BAVARIA, CATHOLIC)
    ]

    assert "2026-08-15" not in days[0]
    assert days[1]["2026-08-15"] == "Assumption Day"
    assert not Calendar.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (CalendarSpec("", "dates", lines=["12-24"]), "name", "Use 1 to 64"),
        (CalendarSpec("next", "dates", lines=["12-24"]), "name", "another name"),
        (CalendarSpec("a,b", "dates", lines=["12-24"]), "name", "without commas"),
        (CalendarSpec("x", "moon"), "kind", "Choose one of: holidays, dates, hours"),
        (CalendarSpec("x", "holidays", "Bavaria"), "place", "Write DE, US or DE-BY"),
        (CalendarSpec("x", "holidays", "XX"), "place", "Write DE, US or DE-BY"),
        (CalendarSpec("x", "holidays", "DE-XX"), "place", "Choose one of: BB, BE"),
        (CalendarSpec("x", "holidays", "DE", ["catolic"]), "place", "catholic, school"),
        (CalendarSpec("x", "dates"), "lines", "at least one date"),
        (CalendarSpec("x", "dates", lines=["tomorrow"]), "lines", "is not a date"),
        (CalendarSpec("x", "dates", lines=["2026-02-30"]), "lines", "there is no such date"),
        (CalendarSpec("x", "dates", lines=["2026-12-24..2026-12-01"]), "lines", "ends before it begins"),
        (CalendarSpec("x", "dates", lines=["2026-12-24..2036-12-01"]), "lines", "at most 366 days"),
        (CalendarSpec("x", "dates", lines=["12-24"] * 501), "lines", "At most 500 lines"),
        (CalendarSpec("x", "hours", lines=["someday 9:00-10:00"]), "lines", "is not a day of the week"),
        (CalendarSpec("x", "hours", lines=["mon 9:00-25:00"]), "lines", "no such time of day"),
        (CalendarSpec("x", "hours", lines=["mon 24:00-24:00"]), "lines", "begins before 24:00"),
        (CalendarSpec("x", "dates", lines=["12-24"], timezone="Mars"), "timezone", "Mars"),
    ],
)
def test_bad_rule_names_the_field_and_changes_nothing(actor, spec, field, words):
    answer = set_calendar(actor, spec)

    assert isinstance(answer, Err)
    assert answer.code == Code.INVALID
    assert words in answer.errors[field][0]
    assert not Calendar.objects.exists()


@pytest.mark.django_db
def test_yearly_dates_go_over_new_year_and_leap_days_stay_in_leap_years(actor):
    shown = set_calendar(actor, CalendarSpec("break", "dates", lines=["12-31..01-01 Break", "02-29"])).value

    days = [day.isoformat() for day, _ in shown.days]
    assert days == [
        "2026-12-31",
        "2027-01-01",
        "2027-12-31",
        "2028-01-01",
        "2028-02-29",
        "2028-12-31",
        "2029-01-01",
    ]
    assert shown.days[0][1] == "Break"


@pytest.mark.django_db
def test_job_that_is_created_skips_what_its_calendars_close(actor):
    set_calendar(actor, CATHOLIC)
    set_calendar(actor, WEEKENDS)
    job = scheduled(actor, calendars=["DE-BY catholic", "weekends"])

    runs = next_runs_of(job, datetime(2026, 4, 1, tzinfo=UTC), 5)
    job.next_run_at = datetime(2026, 4, 2, 7, tzinfo=UTC)
    runs = next_runs_of(job, datetime(2026, 4, 1, tzinfo=UTC), 3)

    assert [f"{run:%m-%d}" for run in runs] == ["04-02", "04-07", "04-08"]
    words = words_of(job)
    assert words == "Every day at 09:00, except public holidays in Bavaria (also catholic) and weekends"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "column", "words"),
    [
        (
            {"calendars": ["holidays"]},
            "calendars",
            "There is no calendar 'holidays'. Choose from: weekends, or",
        ),
        ({"calendars": ["Bavaria"]}, "calendars", "write DE-BY."),
        ({"calendars": ["Bayern"]}, "calendars", "write DE-BY."),
        ({"calendars": ["Germany"]}, "calendars", "write DE."),
        ({"calendars": ["weekends", "weekends"]}, "calendars", "each once"),
        ({"calendars": "weekends"}, "calendars", "Give a list"),
        ({"on_closed": "next"}, "on_closed", "needs a calendar"),
        ({"calendars": ["weekends"], "on_closed": "later"}, "on_closed", "later"),
        (
            {"calendars": ["weekends"], "on_closed": "next", "cron": "*/5 * * * *"},
            "on_closed",
            "can only skip",
        ),
        ({"calendars": ["weekends"], "cron": "@reboot"}, "calendars", "only schedules that repeat"),
        (
            {
                "calendars": ["weekends"],
                "trigger_type": "once",
                "cron": "",
                "run_at": datetime(2026, 5, 1, tzinfo=UTC),
            },
            "calendars",
            "only schedules that repeat",
        ),
    ],
)
def test_calendars_that_a_job_cannot_have_are_refused(actor, fields, column, words):
    set_calendar(actor, WEEKENDS)
    columns = {
        "trigger_type": "cron",
        "cron": "0 9 * * *",
        "task": "prompt",
        "name": "x",
        "kwargs": {"prompt": "x"},
    }

    answer = services.schedule(actor, **columns | fields)

    assert isinstance(answer, Err)
    assert words in answer.errors[column][0]


@pytest.mark.django_db
def test_calendar_of_somebody_else_cannot_be_used(actor):
    set_calendar(Actor(UserFactory()), WEEKENDS)

    answer = services.schedule(
        actor,
        trigger_type="cron",
        cron="0 9 * * *",
        task="prompt",
        name="x",
        kwargs={"prompt": "x"},
        calendars=["weekends"],
    )

    assert "There is no calendar 'weekends'" in answer.errors["calendars"][0]


@pytest.mark.django_db
def test_jobs_follow_a_calendar_that_changes(actor):
    set_calendar(actor, CalendarSpec("mine", "dates", lines=["2026-03-07"]))
    moving = scheduled(actor, cron="0 9 7 * *", calendars=["mine"], on_closed="next")
    skipping = scheduled(actor, cron="0 9 7 * *", calendars=["mine"])
    assert f"{moving.next_run_at:%m-%d}" == "03-08"

    set_calendar(actor, CalendarSpec("mine", "dates", lines=["2026-03-07..2026-03-09"]))

    for job in (moving, skipping):
        job.refresh_from_db()
    assert f"{moving.next_run_at:%m-%d}" == "03-10"
    assert f"{skipping.next_run_at:%m-%d}" == "03-07"
    assert next_runs_of(skipping, NOW, 1)[0].month == 4
    reasons = [services.why(actor, job.public_id, date(2026, 3, 7), NOW).value for job in (moving, skipping)]
    assert reasons[0].explanation == "It runs on Tue 10 Mar 2026 09:00 instead: closed by calendar mine."
    assert reasons[1].explanation == "It won't run then: closed by calendar mine."


@pytest.mark.django_db
def test_calendar_in_use_cannot_be_deleted(actor):
    set_calendar(actor, WEEKENDS)
    job = scheduled(actor, calendars=["weekends"])
    services.delete(actor, job.public_id)

    answer = delete_calendar(actor, "weekends")

    assert isinstance(answer, Err)
    assert (answer.code, answer.matches) == (Code.CALENDAR_IN_USE, ("Stand up (in the trash)",))
    services.restore(actor, job.public_id)
    assert isinstance(services.edit(actor, job.public_id, calendars=[]), Ok)
    assert delete_calendar(actor, "weekends") == Ok("weekends")
    assert delete_calendar(actor, "weekends").code == Code.CALENDAR_NOT_FOUND
    assert [event.verb for event in Event.objects.filter(job=None).order_by("pk")] == [
        "set calendar",
        "delete calendar",
    ]


@pytest.mark.django_db
def test_change_of_a_jobs_calendars_can_be_undone(actor):
    set_calendar(actor, WEEKENDS)
    job = scheduled(actor, cron="0 9 7 * *")
    edited = services.edit(actor, job.public_id, calendars=["weekends"], on_closed="previous").value
    assert f"{edited.next_run_at:%m-%d}" == "03-06"

    undone = undo(actor, [edited.event])

    assert isinstance(undone, Ok)
    [job] = undone.value.jobs
    assert (job.calendars, job.on_closed, job.closed_by) == ([], "skip", "")
    assert f"{job.next_run_at:%m-%d}" == "03-07"


@pytest.mark.django_db
def test_number_of_calendars_is_limited(actor):
    row = Calendar(owner=actor.user, kind="dates", created_at=NOW, updated_at=NOW)
    Calendar.objects.bulk_create(
        Calendar(owner=row.owner, name=f"c{number}", kind="dates", created_at=NOW, updated_at=NOW)
        for number in range(MAX_CALENDARS)
    )

    assert set_calendar(actor, WEEKENDS).code == Code.TOO_MANY_CALENDARS


@pytest.mark.django_db
def test_names_of_places_become_calendars_of_holidays_with_the_first_job(actor):
    job = scheduled(actor, cron="0 9 25 12 *", calendars=["DE-BY catholic", "FR"])

    assert [(shown.name, shown.words, shown.jobs) for shown in list_calendars(actor)] == [
        ("DE-BY catholic", "public holidays in Bavaria (also catholic)", ["Stand up"]),
        ("FR", "public holidays in France", ["Stand up"]),
    ]
    job.refresh_from_db()
    assert job.closed_by == " ".join(row.reference for row in Calendar.objects.order_by("name"))
    assert Event.objects.filter(verb="set calendar").count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "column", "words"),
    [
        ({"calendars": ["DE-BY", "moon"]}, "calendars", "There is no calendar 'moon'"),
        (
            {"calendars": ["DE-BY protestant"]},
            "calendars",
            "DE has no category 'protestant'. Choose from: public",
        ),
        ({"calendars": ["DE-BY"], "ends_at": NOW}, "ends_at", "no run before this end"),
    ],
)
def test_refused_job_adds_no_calendar(actor, fields, column, words):
    columns = {"trigger_type": "cron", "cron": "0 9 * * *", "task": "prompt", "name": "x"}

    answer = services.schedule(actor, kwargs={"prompt": "x"}, **columns | fields)

    assert words in answer.errors[column][0]
    assert not Calendar.objects.exists()


@pytest.mark.django_db
def test_staff_who_edit_a_job_add_its_calendar_for_its_owner(actor):
    job = scheduled(actor)
    staff = Actor(UserFactory(is_staff=True, is_superuser=True), Event.Door.WEB)

    assert isinstance(services.edit(staff, job.public_id, calendars=["DE-BY"]), Ok)

    assert Calendar.objects.get().owner == actor.user


@pytest.mark.django_db
def test_years_that_come_near_are_added(actor):
    set_calendar(actor, BAVARIA)
    job = scheduled(actor, calendars=["Bavaria"])
    later = datetime(2027, 1, 5, tzinfo=UTC)

    assert engine.refresh_calendars(NOW) == 0
    assert engine.refresh_calendars(later) == 1

    calendar = Calendar.objects.get()
    job.refresh_from_db()
    assert calendar.until.year == 2029
    assert job.closed_by == calendar.reference
    assert engine.refresh_calendars(later) == 0


@pytest.mark.django_db
@pytest.mark.parametrize("is_changed", [False, True])
def test_years_are_added_without_holding_the_database(actor, monkeypatch, is_changed):
    set_calendar(actor, BAVARIA)
    later = datetime(2027, 1, 5, tzinfo=UTC)
    compile_calendar = calendars.compile_calendar

    def compile_slowly(calendar, now):
        # Every transaction within that of the test has a savepoint.
        assert not connection.savepoint_ids
        if is_changed:
            Calendar.objects.update(updated_at=later)
        return compile_calendar(calendar, now)

    monkeypatch.setattr(calendars, "compile_calendar", compile_slowly)

    assert engine.refresh_calendars(later) == (0 if is_changed else 1)
    assert Calendar.objects.get().until.year == (2028 if is_changed else 2029)


@pytest.mark.django_db
def test_plan_beyond_the_data_is_a_warning(actor):
    set_calendar(actor, BAVARIA)
    job = scheduled(actor, calendars=["Bavaria"], ends_at=datetime(2029, 6, 1, tzinfo=UTC))

    shown = preview_of(job, NOW)

    assert "Its calendars have data until 2028-12-31: runs after that are not checked yet." in shown.warnings
