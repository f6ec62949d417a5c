"""The calendar, and the feed for calendar apps."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from schedules.models import Job, Profile
from schedules.services.runs import outcomes
from schedules.web.views import calendar
from tests.factories import ExecutionFactory, JobFactory
from tests.web.html import html_of

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)


def day_of(answer: object, number: int) -> object:
    weeks = answer.context["weeks"]  # type: ignore[attr-defined]
    return next(day for week in weeks for day in week if day.date.day == number and not day.is_other)


@time_machine.travel(NOW, tick=False)
def test_planned_runs_are_shown_on_days_in_the_zone_of_the_viewer(web: Client, owner: User):
    JobFactory(
        owner=owner, name="Late shift", cron="30 23 * * *", next_run_at=NOW.replace(hour=23, minute=30)
    )

    answer = web.get("/calendar/")

    # 23:30 UTC is half past midnight in Berlin, the next day.
    assert day_of(answer, 15).count == 0
    assert day_of(answer, 16).count == 1
    assert "Late shift" in web.get("/calendar/?view=day&on=2026-11-16").content.decode()


@time_machine.travel(NOW, tick=False)
def test_next_month_shows_only_the_runs_planned_in_it(web: Client, owner: User):
    JobFactory(owner=owner, name="Tomorrow", once=True, run_at=NOW + timedelta(days=1))
    JobFactory(owner=owner, name="Overdue", once=True, run_at=NOW - timedelta(minutes=1))
    JobFactory(
        owner=owner,
        name="Weekly",
        interval=True,
        every=timedelta(days=7),
        next_run_at=NOW + timedelta(days=3, minutes=30),
    )

    answer = web.get("/calendar/", {"on": "2026-12-01"})

    planned = {
        day.date.day: [each.job.name for each in day.planned]
        for week in answer.context["weeks"]
        for day in week
        if day.planned and not day.is_other
    }
    assert planned == {number: ["Weekly"] for number in (2, 9, 16, 23, 30)}
    assert [each.job.name for each in day_of(web.get("/calendar/"), 15).planned] == ["Overdue"]


@time_machine.travel(NOW, tick=False)
def test_past_days_name_what_failed(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Backup", next_run_at=NOW)
    runs = [
        ExecutionFactory(job=job, scheduled_for=NOW - timedelta(days=1, hours=hours), status="failed")
        for hours in (3, 2, 1)
    ]
    ExecutionFactory(job=JobFactory(owner=owner, name="Fine"), scheduled_for=NOW - timedelta(days=1))

    answer = web.get("/calendar/")

    failed = day_of(answer, 14).failed
    assert [(each.name, each.count, each.newest_run) for each in failed] == [("Backup", 3, runs[-1].pk)]
    assert f'<a class="bad" href="/runs/{runs[-1].pk}/" title="Backup failed">' in html_of(answer)
    assert "Fine" not in answer.content.decode()


@time_machine.travel(NOW, tick=False)
@pytest.mark.parametrize("view", ["month", "week"])
def test_routine_jobs_are_folded_and_rare_ones_come_first(web: Client, owner: User, view: str):
    for name, expression in {
        "Minutely": "* * * * *",
        "Daily": "0 20 * * *",
        "Weekdays": "0 9 * * 1-5",
        "Thursdays": "0 20 * * 4",
        "Monthly": "0 21 19 * *",
    }.items():
        job = JobFactory.build(owner=owner, name=name, cron=expression)
        job.next_run_at = job.trigger.next_after(NOW)
        job.save()
    JobFactory(owner=owner, name="Dentist", once=True, run_at=NOW + timedelta(days=4, hours=1))

    answer = web.get("/calendar/", {"view": view, "on": "2026-11-19"})

    thursday = day_of(answer, 19)
    assert [each.job.name for each in thursday.planned] == ["Dentist", "Thursdays", "Monthly"]
    assert {each.job.name for each in thursday.routine} == {"Minutely", "Daily", "Weekdays"}
    page = html_of(answer)
    assert ">3 routine jobs</" in page
    assert ("Minutely" in page) == (view == "week")


@time_machine.travel(NOW, tick=False)
def test_day_is_shown_as_hours_with_what_ran_and_what_is_planned(web: Client, owner: User):
    job = JobFactory(owner=owner, name="Backup", cron="0 20 * * *", next_run_at=NOW.replace(hour=20))
    failed = ExecutionFactory(job=job, scheduled_for=NOW - timedelta(hours=2), status="failed")
    JobFactory(owner=owner, name="Minutely", cron="* * * * *", next_run_at=NOW)
    JobFactory(owner=owner, name="Twice", cron="15,45 21 * * *", next_run_at=NOW.replace(hour=21, minute=15))

    answer = web.get("/calendar/?view=day")

    hours = {hour.label: hour for hour in answer.context["hours"]}
    assert len(hours) == 24
    assert [each.newest_run for each in hours["09:00"].past.failed] == [failed.pk]
    assert [(each.job.name, each.count) for each in hours["21:00"].planned] == [("Backup", 1)]
    assert [(each.job.name, each.count) for each in hours["22:00"].planned] == [("Twice", 2)]
    assert [each.job.name for each in answer.context["all_day"]] == ["Minutely"]
    listed = web.get(hours["09:00"].runs).context["listed"].rows
    assert listed == [failed]


@pytest.mark.parametrize("status", ["succeeded", "failed"])
@time_machine.travel(NOW, tick=False)
def test_failure_of_the_night_is_named_whatever_a_frequent_job_did(
    web: Client, owner: User, monkeypatch: pytest.MonkeyPatch, status: str
):
    monkeypatch.setattr(outcomes, "COUNTED_RUNS", 60)
    night = datetime(2026, 11, 14, 1, 30, tzinfo=UTC)
    backup = ExecutionFactory(
        job=JobFactory(owner=owner, name="Backup"), scheduled_for=night, status="failed"
    )
    ping = JobFactory(owner=owner, name="Ping")
    for minute in range(70):
        ExecutionFactory(job=ping, scheduled_for=night + timedelta(minutes=1 + minute), status=status)

    for view in ("month", "week"):
        answer = web.get("/calendar/", {"view": view, "on": "2026-11-14"})
        past = day_of(answer, 14).past
        assert next((each.name, each.newest_run) for each in past.failed) == ("Backup", backup.pk)
        assert (past.bad, past.is_bad_cut) == (1 if status == "succeeded" else 71, False)
        assert past.is_good_cut
        assert 'title="Backup failed"' in html_of(answer)
    hours = web.get("/calendar/?view=day&on=2026-11-14").context["hours"]
    assert next(hour for hour in hours if hour.label == "02:00").past.failed[0].name == "Backup"


@pytest.mark.parametrize(
    ("day", "count", "note", "labels"),
    [
        ("2026-03-29", 23, "Clocks go forward: 02:00 becomes 03:00", ["01:00", "03:00", "04:00"]),
        ("2026-10-25", 25, "Clocks go back: 03:00 becomes 02:00", ["02:00", "02:00", "03:00"]),
        ("2026-11-15", 24, "", []),
    ],
)
@time_machine.travel(datetime(2026, 3, 20, 10, 30, tzinfo=UTC), tick=False)
def test_day_marks_the_hour_in_which_clocks_change(
    web: Client, owner: User, day: str, count: int, note: str, labels: list[str]
):
    JobFactory(owner=owner, name="Early", cron="30 2 * * *", timezone="Europe/Berlin", next_run_at=NOW)
    answer = web.get("/calendar/", {"view": "day", "on": day})

    hours = answer.context["hours"]
    assert len(hours) == count
    assert [hour.note for hour in hours if hour.note] == ([note] if note else [])
    if note:
        place = next(place for place, hour in enumerate(hours) if hour.note)
        assert [hour.label for hour in hours[place - 1 : place + 2]] == labels
        assert note in answer.content.decode()


def test_invalid_date_is_not_an_error(web: Client, owner: User):
    JobFactory(owner=owner)

    for on in ("2026-02-30", "x", "0001-01-01", "9999-12-31"):
        for view in ("month", "day"):
            assert web.get("/calendar/", {"on": on, "view": view}).status_code == 200


@time_machine.travel(NOW, tick=False)
def test_feed_needs_its_secret_key_but_no_login(client: Client, owner: User):
    JobFactory(owner=owner, name="Tea, please; now", cron="0 20 * * *", next_run_at=NOW.replace(hour=20))
    JobFactory(owner=owner, name="Every minute", cron="* * * * *", next_run_at=NOW)

    answer = client.get(f"/calendar/{owner.cronty_profile.calendar_key}.ics")

    text = answer.content.decode()
    assert answer["Content-Type"].startswith("text/calendar")
    assert text.count("SUMMARY:Tea\\, please\\; now") == 30
    assert "DTSTART:20261115T200000Z" in text
    assert "DTSTART:20261214T200000Z" in text
    assert text.endswith("END:VCALENDAR\r\n")
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))


@time_machine.travel(NOW, tick=False)
def test_pages_and_feed_say_until_when_quiet_hours_hold_a_message(
    client: Client, web: Client, owner: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    at = NOW.replace(hour=21)
    profile = Profile.objects.get(user=owner)
    feed = f"/calendar/{profile.calendar_key}.ics"
    addresses = ["/", "/calendar/", "/calendar/?view=week", "/calendar/?view=day&on=2026-11-15", feed]
    message = {"task": "notify", "cron": "0 21 * * 0", "next_run_at": at, "owner": owner}
    JobFactory(name="Tea", **message)
    JobFactory(name="Fire", urgent=True, **message)
    JobFactory(name="Backup", **message | {"task": "tests.ping"})

    def held(address: str) -> list[str]:
        text = html_of((client if address == feed else web).get(address)).replace("\r\n ", "")
        return re.findall(r"held until \S+ by quiet hours", text)

    tag = client.get(feed)["ETag"]
    assert [held(address) for address in addresses] == [[]] * 5
    Profile.objects.update(quiet_hours="22:00-07:00", timezone="Europe/Berlin")

    assert [set(held(address)) for address in addresses] == [{"held until 07:00 by quiet hours"}] * 5
    assert client.get(feed, headers={"If-None-Match": tag}).status_code == 200
    with CaptureQueriesContext(connection) as few:
        held("/calendar/")
    for number in range(5):
        JobFactory(name=f"Tea {number}", **message)
    with django_assert_max_num_queries(len(few)):
        held("/calendar/")


@pytest.mark.parametrize(
    ("cron", "timezone", "count"),
    [
        pytest.param("*/30 * * * *", "UTC", 0, id="half-hourly"),
        pytest.param("0 * * * *", "UTC", 30 * 24, id="hourly"),
        pytest.param("0 * * * *", "Europe/Berlin", 30 * 24, id="hourly where clocks skip an hour"),
    ],
)
@time_machine.travel(datetime(2026, 3, 20, 10, 30, tzinfo=UTC), tick=False)
def test_feed_leaves_out_jobs_that_run_more_than_once_an_hour(
    client: Client, owner: User, cron: str, timezone: str, count: int
):
    JobFactory(owner=owner, cron=cron, timezone=timezone, next_run_at=datetime(2026, 3, 20, 11, tzinfo=UTC))

    text = client.get(f"/calendar/{owner.cronty_profile.calendar_key}.ics").content.decode()

    assert text.count("BEGIN:VEVENT") == count


@time_machine.travel(NOW, tick=False)
def test_feed_over_its_limit_leaves_out_runs_of_frequent_jobs(
    client: Client, web: Client, owner: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calendar, "FEED_EVENTS", 40)
    JobFactory.create_batch(2, owner=owner, cron="0 20 * * *", next_run_at=NOW.replace(hour=20))
    JobFactory(owner=owner, name="Board meeting", once=True, run_at=NOW + timedelta(days=20))

    text = client.get(f"/calendar/{owner.cronty_profile.calendar_key}.ics").content.decode()

    assert (text.count("BEGIN:VEVENT"), text.count("SUMMARY:Board meeting")) == (40, 1)
    assert "There are at most 40 events" in html_of(web.get("/calendar/"))


def test_feed_with_an_unknown_key_is_a_404(client: Client, db: None):
    for key in ["", "guess", "x" * 500]:
        assert client.get(f"/calendar/{key}.ics").status_code == 404


def test_feed_leaves_out_deleted_and_foreign_jobs(client: Client, owner: User, stranger: User):
    JobFactory(owner=owner, name="Deleted", deleted_at=NOW, cron="0 * * * *")
    JobFactory(owner=stranger, name="Foreign", cron="0 * * * *")

    text = client.get(f"/calendar/{owner.cronty_profile.calendar_key}.ics").content.decode()

    assert "VEVENT" not in text
    assert Job.objects.count() == 2


@time_machine.travel(NOW, tick=False)
def test_unchanged_feed_is_not_built_again(client: Client, owner: User):
    job = JobFactory(owner=owner, cron="0 20 * * *", next_run_at=NOW.replace(hour=20), updated_at=NOW)
    address = f"/calendar/{owner.cronty_profile.calendar_key}.ics"
    tag = client.get(address)["ETag"]

    same = client.get(address, headers={"if-none-match": tag})
    Job.objects.filter(pk=job.pk).update(name="Another name")
    changed = client.get(address, headers={"if-none-match": tag})

    assert (same.status_code, same.content) == (304, b"")
    assert changed.status_code == 200
    with time_machine.travel(NOW + timedelta(hours=1), tick=False):
        assert client.get(address, headers={"if-none-match": changed["ETag"]}).status_code == 200


def test_address_of_the_calendar_can_be_changed_and_the_old_one_stops_working(web, owner):
    old = owner.cronty_profile.calendar_key

    answer = web.post("/calendar/address/", {"shown": old})

    new = Profile.objects.get(user=owner).calendar_key
    assert (answer.status_code, answer["Location"]) == (303, "/calendar/")
    assert len(new) == 43
    assert [Client().get(f"/calendar/{key}.ics").status_code for key in (old, new)] == [404, 200]
    shown = web.get("/calendar/")
    assert new in shown.content.decode()
    assert shown["Cache-Control"] == "no-store"
    assert web.get("/calendar/address/").status_code == 405
