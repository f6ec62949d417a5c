"""The subcommand for calendars, and the options that give them to jobs."""

import pytest

from schedules.models import Calendar, Event, Job

pytestmark = pytest.mark.django_db


def test_calendar_is_shown_saved_listed_and_deleted(cronty):
    shown = cronty("calendars", "DE-BY", "--holidays", "DE-BY", "--category", "catholic", "--dry-run")
    assert shown.code == 0
    assert not Calendar.objects.exists()

    saved = cronty("calendars", "DE-BY", "--holidays", "DE-BY", "--category", "catholic", "--json")
    assert {"Assumption Day"} <= {each["title"] for each in saved.json["days"]}
    assert "public holidays in Bavaria" in cronty("calendars").out
    assert Event.objects.get().door == "terminal"
    assert cronty("calendars", "DE-BY", "--delete").code == 0
    assert cronty("calendars", "DE-BY", "--delete").code == 3


def test_calendar_of_two_kinds_or_none_is_refused(cronty):
    assert cronty("calendars", "x").code == 2
    assert cronty("calendars", "x", "--hours", "sat", "--date", "12-24").code == 2
    refused = cronty("calendars", "x", "--hours", "someday")
    assert refused.code == 1
    assert "is not a day of the week" in refused.err


def test_job_gets_and_loses_calendars_by_options(cronty):
    cronty("calendars", "weekends", "--hours", "sat,sun")

    added = cronty(
        "add", "every day at 9:00", "prompt", "x", "--calendar", "weekends", "--on-closed", "previous"
    )
    assert added.code == 0
    assert "at the last open time before if closed by weekends" in added.out
    job = Job.objects.get()
    assert (job.calendars, job.on_closed) == (["weekends"], "previous")
    assert cronty("calendars", "weekends", "--delete").code == 1

    assert cronty("edit", str(job.pk), "--calendar", "").code == 0
    job.refresh_from_db()
    assert (job.calendars, job.on_closed, job.closed_by) == ([], "skip", "")


def test_calendars_of_a_file_are_exported_again(cronty, tmp_path):
    cronty("calendars", "weekends", "--hours", "sat,sun")
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "jobs:\n  Tea:\n    schedule: '0 9 * * *'\n    task: prompt\n    arguments: {prompt: Tea}\n"
        "    calendars: [weekends]\n    on_closed: next\n"
    )

    assert cronty("apply", str(path), "--yes").code == 0
    exported = cronty("export").out

    assert "calendars:" in exported
    assert "on_closed: next" in exported
    assert cronty("apply", str(path), "--check").code == 0


def test_usual_names_of_holidays_need_no_calendar_of_their_own(cronty, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "jobs:\n  Tea:\n    schedule: '0 9 * * *'\n    task: prompt\n    arguments: {prompt: Tea}\n    calendars: [DE-BY]\n"
    )
    assert cronty("apply", str(path), "--check").code != 0
    assert not Calendar.objects.exists()

    assert cronty("apply", str(path), "--yes").code == 0
    assert cronty("apply", str(path), "--check").code == 0
    added = cronty("add", "every day at 9:00", "prompt", "x", "--calendar", "FR")

    assert "except public holidays in France" in added.out
    tea = Job.objects.get(name="Tea")
    assert tea.closed_by == Calendar.objects.get(name="DE-BY").reference
    path.write_text(path.read_text().replace("DE-BY", "GB-ENG"))
    assert cronty("apply", str(path), "--yes").code == 0
    tea.refresh_from_db()
    assert tea.closed_by == Calendar.objects.get(name="GB-ENG").reference
