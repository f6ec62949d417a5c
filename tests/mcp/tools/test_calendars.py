"""Calendars of jobs, as agents give and see them."""

import pytest

from schedules.models import Calendar, Job

pytestmark = pytest.mark.django_db(transaction=True)

DAILY = {
    "name": "Tea",
    "task": "prompt",
    "kwargs": {"prompt": "Tea"},
    "trigger_type": "cron",
    "trigger_config": {"expression": "0 9 * * *"},
    "timezone": "Europe/Berlin",
}


def test_agent_leaves_out_public_holidays_by_their_place(call):
    made = call("schedule_job", **DAILY, calendars=["DE-BY catholic"])

    assert made["description"] == "Every day at 09:00, except public holidays in Bavaria (also catholic)"
    assert made["calendars"] == ["DE-BY catholic"]
    assert Calendar.objects.get().rule["categories"] == ["public", "catholic"]
    assert call("job_status", job_id=made["job_id"])["calendars"] == ["DE-BY catholic"]


def test_agent_moves_runs_and_takes_calendars_away(call):
    made = call("schedule_job", **DAILY)

    moved = call("update_job", job_id=made["job_id"], calendars=["FR", "previous"])
    assert moved["description"].endswith(
        "at the last open time before if closed by public holidays in France"
    )
    assert call("job_status", job_id=made["job_id"])["calendars"] == ["FR", "previous"]

    call("update_job", job_id=made["job_id"], calendars=[])
    job = Job.objects.get()
    assert (job.calendars, job.on_closed) == ([], "skip")
    assert "calendars" not in call("job_status", job_id=made["job_id"])


def test_unknown_calendar_is_refused_with_those_that_exist(call):
    call("schedule_job", **DAILY, calendars=["FR"])

    refused = call("schedule_job", **DAILY | {"name": "x"}, calendars=["moon"])

    assert "there is no calendar 'moon'. Choose from: FR" in str(refused)
    assert Job.objects.count() == 1


def test_preferences_name_the_calendars(call):
    assert "Calendars" not in call("get_preferences").get("note", "")
    call("schedule_job", **DAILY, calendars=["FR"])

    assert "Calendars: FR (public holidays in France)." in call("get_preferences")["note"]


def test_answer_says_the_end_and_the_exceptions_of_a_phrase(call):
    phrase = "every day at 9 except 2099-12-24 but not holidays in France until 2099-12-31"
    refused = call("schedule_job", **DAILY | {"trigger_config": phrase})
    assert "within the next" in refused["error"]

    phrase = "every day at 9 except holidays in France until 2029-12-31"
    made = call("schedule_job", **DAILY | {"trigger_config": phrase})

    assert made["description"].startswith("Every day at 09:00, except public holidays in France, until ")
    assert made["calendars"] == ["FR"]
