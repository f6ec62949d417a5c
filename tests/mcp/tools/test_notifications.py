"""The notification family, with a real ntfy server to send to."""

import asyncio
import json
from datetime import timedelta

import pytest
from django.db import OperationalError, connection

from schedules import clock, services
from schedules.models import Execution, Job, Profile
from tests.factories import ExecutionFactory, JobFactory
from tests.sink import Answer, Sink

pytest_plugins = ["tests.ntfy"]


NOTE = {"message": "Water the plants", "notification_topic": "olga-home"}
DAILY = {**NOTE, "cron": "0 9 * * *", "timezone": "Europe/Berlin"}


@pytest.fixture
def sink(settings):
    with Sink(Answer(body=b'{"id": "abc"}')) as server:
        settings.NTFY_URL = server.url("")
        yield server


def test_push_notification_is_sent_immediately_with_all_given_fields(olga, sink):
    extras = {
        "title": "Plants",
        "priority": 4,
        "tags": ["seedling"],
        "markdown": True,
        "click": "https://example.org",
        "icon": "https://example.org/i.png",
        "attach": "https://example.org/a.pdf",
        "filename": "a.pdf",
        "actions": [{"action": "view", "label": "Open", "url": "https://example.org"}],
    }

    answer = olga.call("send_push_notification", **NOTE, **extras)

    assert answer == {"success": True, "id": "abc", "confirmation": "Push notification sent successfully"}
    assert json.loads(sink.requests[0].body) == {
        "topic": "olga-home",
        "message": "Water the plants",
        **extras,
    }


def test_notification_due_in_quiet_hours_is_answered_with_when_it_is_sent(call, owner, noon):
    Profile.objects.filter(user=owner).update(quiet_hours="22:00-07:00")
    said = "a notification due on Wed 4 Feb 2026 23:00 is held and sent at 07:00."

    once = call("schedule_notification", message="Bed", notification_topic="tea", datetime="2026-02-04T23:00")
    daily = call("schedule_cron_notification", **DAILY | {"cron": "0 9,23 * * *"})
    by_day = call("schedule_cron_notification", **DAILY)
    at_night = {"trigger_type": "cron", "trigger_config": {"expression": "0 23 * * *"}}
    preview = call("preview_schedule", **at_night)
    other_task = call("schedule_job", name="a", task="tests.ping", **at_night)
    changed = call("update_job", job_id=by_day["schedule_id"], **at_night)

    assert "During 22:00-07:00" in call("upcoming")["warning"]
    Job.objects.update(urgent=True)
    assert "During" not in call("upcoming").get("warning", "")
    for warning in (once["warning"], daily["warning"], preview["warnings"][0], changed["warning"]):
        assert said in warning
    for answer in (by_day, other_task):
        assert "Quiet hours" not in answer.get("warning", "")


def test_push_notification_is_a_run_in_the_ledger(call, sink, owner):
    call("send_push_notification", **NOTE)
    sink.then(Answer(status=403, body=b'{"error": "forbidden"}'))
    call("send_push_notification", **NOTE, title="Plants")
    call("send_push_notification", **NOTE | {"notification_topic": "not valid"})

    failed, sent = Execution.objects.order_by("-pk")
    assert (sent.status, sent.owner, sent.task, sent.job_name) == (
        "succeeded", owner, "notify", "Water the plants",
    )  # fmt: skip
    assert sent.result["topic"] == "olga-home"
    assert (failed.status, failed.job_name) == ("failed", "Plants")
    assert "403: forbidden" in failed.error


def test_push_notification_that_fails_unexpectedly_does_not_stay_running(olga, sink, monkeypatch):
    async def create_connection(*args, **options):
        raise RuntimeError("hush")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create_connection)

    assert olga.raw("send_push_notification", NOTE).is_error

    push = Execution.objects.get()
    assert (push.status, push.error) == ("failed", "Unexpected error: RuntimeError.")


def test_push_notification_reaches_a_real_server(call, ntfy, settings):
    settings.NTFY_URL, settings.NTFY_TOKEN = ntfy.url, ntfy.token

    answer = call("send_push_notification", message="Grüße", notification_topic="tools-test")

    assert [message["id"] for message in ntfy.messages("tools-test")] == [answer["id"]]


def test_failing_or_unreachable_service_gives_a_normal_answer(call, sink, settings):
    sink.then(Answer(status=403, body=b'{"error": "forbidden"}'), Answer(status=500))

    refused = call("send_push_notification", **NOTE)
    assert refused["error"] == "127.0.0.1 answered 403"
    assert refused["error_from_receiver"] == "forbidden"
    assert "500" in call("send_push_notification", **NOTE)["error"]
    settings.NTFY_URL = "http://127.0.0.1:1"
    assert call("send_push_notification", **NOTE)["success"] is False


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"notification_topic": "no spaces"}, "notification_topic: topics can't contain spaces"),
        (
            {"notification_topic": "docs"},
            "notification_topic: ntfy reserves this name. Choose another",
        ),
        ({"message": ""}, "message: "),
        ({"priority": 6}, "priority: "),
        ({"actions": [{"action": "view", "label": "x", "url": "https://e.org"}] * 4}, "actions: "),
        ({"actions": [{"action": "explode"}]}, "actions.0: choose its action: view, http or broadcast"),
        ({"icon": "ftp://example.org"}, "icon: "),
    ],
)
def test_every_tool_refuses_an_invalid_notification_alike(call, arguments, error):
    for tool, more in (
        ("send_push_notification", {}),
        ("schedule_notification", {"delay": "1h"}),
        ("schedule_cron_notification", {"cron": "0 9 * * *", "timezone": "UTC"}),
    ):
        answer = call(tool, **{**NOTE, **more, **arguments})
        assert answer["success"] is False
        assert answer["error"].startswith(error)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("when", "scheduled_time"),
    [
        ({"datetime": "2026-02-05T15:00:00"}, "2026-02-05T15:00:00+01:00"),
        ({"datetime": "2026-02-05T15:00:00", "timezone": "Asia/Tokyo"}, "2026-02-05T15:00:00+09:00"),
        ({"datetime": "2026-02-05T15:00:00Z"}, "2026-02-05T16:00:00+01:00"),
        ({"date": "2026-02-06", "time": "08:30", "timezone": "Europe/Warsaw"}, "2026-02-06T08:30:00+01:00"),
        ({"time": "18:00", "timezone": "America/New_York"}, "2026-02-04T18:00:00-05:00"),
        ({"date": "2026-02-06", "time": "8:30", "timezone": "Europe/Warsaw"}, "2026-02-06T08:30:00+01:00"),
        ({"date": "2026-02-06", "time": "8:30:15", "timezone": "Europe/Warsaw"}, "2026-02-06T08:30:15+01:00"),
        ({"time": "15:00"}, "2026-02-04T15:00:00+01:00"),
        ({"delay": "1d2h30m10s"}, "2026-02-05T14:30:10+01:00"),
    ],
)
def test_notification_time_is_given_in_one_of_three_ways(olga, cluster, noon, when, scheduled_time):
    answer = olga.call("schedule_notification", **NOTE, **when)

    job = Job.objects.get()
    assert (answer["success"], answer["scheduled_time"], answer["delay"]) == (
        True,
        scheduled_time,
        when.get("delay"),
    )
    assert answer["message_id"] == job.public_id
    assert job.public_id.startswith("msg_")
    assert answer["next_runs"] == [scheduled_time]
    assert answer["confirmation"].startswith("Notification scheduled for ")
    assert job.kwargs == {"message": "Water the plants", "topic": "olga-home"}


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ({}, "missing: datetime, or time with timezone, or delay. Give exactly one of: datetime"),
        ({"timezone": "UTC"}, "missing: datetime"),
        ({"date": "2026-02-05"}, "missing: time."),
        ({"date": "2026-02-05", "timezone": "UTC"}, "missing: time."),
        ({"delay": "1h", "datetime": "2026-02-05T15:00"}, "these clash: datetime, delay."),
        ({"delay": "1h", "time": "15:00", "date": "2026-02-05"}, "these clash: date, time, delay."),
        ({"delay": "soon"}, 'delay: couldn\'t read that duration. Try "2h30m"'),
        ({"delay": "0s"}, "delay: the shortest time is 1 second"),
        ({"datetime": "someday"}, "datetime: "),
        ({"datetime": "2026-02-04T11:00", "timezone": "Mars"}, "Unknown timezone: Mars"),
        ({"time": "15:00", "timezone": "Mars"}, "Unknown timezone: Mars"),
        ({"time": "25:00", "timezone": "UTC"}, 'time: write HH:MM or HH:MM:SS, like "15:00"'),
        ({"time": "2h30m", "timezone": "UTC"}, "time: write HH:MM"),
        ({"time": "15:00+05:30", "timezone": "UTC"}, "time: write HH:MM"),
        ({"date": "tomorrow", "time": "15:00", "timezone": "UTC"}, "date: write YYYY-MM-DD"),
        ({"date": "2026-02-30", "time": "15:00", "timezone": "UTC"}, "date: write YYYY-MM-DD"),
        (
            {"date": "2026-03-29", "time": "02:30", "timezone": "Europe/Berlin"},
            "date and time: clocks in Europe/Berlin skip 02:30 on 2026-03-29",
        ),
        ({"datetime": ""}, 'datetime: this is empty. Try "tomorrow at 9am"'),
        (
            {"datetime": "2026-02-04T11:00"},
            "The time is in the past. The current time is 2026-02-04T12:00:00+01:00",
        ),
        (
            {"time": "09:00", "timezone": "Europe/Berlin"},
            "The time is in the past. The current time is 2026-02-04T12:00:00+01:00",
        ),
    ],
)
def test_error_about_the_time_says_what_is_missing_conflicting_or_past(call, noon, when, error):
    answer = call("schedule_notification", **NOTE, **when)

    assert answer["success"] is False
    assert answer["error"].startswith(error)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ({"time": "15:00"}, "missing: timezone."),
        ({"date": "2026-02-05"}, "missing: time and timezone."),
    ],
)
def test_time_needs_a_zone_if_the_user_has_set_none(call, owner, when, error):
    Profile.objects.filter(user=owner).update(timezone="")

    answer = call("schedule_notification", **NOTE, **when)

    assert answer["error"].startswith(error)
    assert not Job.objects.exists()


def test_cron_notification_returns_zone_description_and_runs(olga, cluster, noon):
    answer = olga.call("schedule_cron_notification", **DAILY, label="Plants", title="Green")

    job = Job.objects.get()
    assert answer == {
        "success": True,
        "schedule_id": job.public_id,
        "cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "notification_topic": "olga-home",
        "label": "Plants",
        "confirmation": "Notification scheduled: Every day at 09:00 (Europe/Berlin)",
        "description": "Every day at 09:00",
        "timezone": "Europe/Berlin",
        "next_runs": answer["next_runs"],
        "undo": f"undo_change(change={job.events.get().pk})",
    }
    assert answer["next_runs"][0] == "2026-02-05T09:00:00+01:00"
    assert job.public_id.startswith("scd_")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cron": "hourly"}, "Invalid cron expression: hourly ("),
        ({"cron": "0 0 30 2 *"}, "Invalid cron expression: 0 0 30 2 * (this never runs"),
        ({"timezone": "Mars"}, "Unknown timezone: Mars"),
        (
            {"cron": "CRON_TZ=Asia/Tokyo 0 9 * * *"},
            "Invalid cron expression: CRON_TZ=Asia/Tokyo 0 9 * * * (its zone is not the timezone Europe/Berlin",
        ),
        ({"cron": "CRON_TZ=Europe/Berlin"}, "Invalid cron expression: CRON_TZ=Europe/Berlin ("),
        ({"label": "x" * 300}, "label: "),
    ],
)
def test_invalid_cron_notification_is_refused(call, arguments, error):
    answer = call("schedule_cron_notification", **{**DAILY, **arguments})

    assert answer["success"] is False
    assert answer["error"].startswith(error)


def test_list_shows_only_active_schedules(call, owner, stranger):
    cron = call("schedule_cron_notification", **DAILY, label="Plants")
    once = call("schedule_notification", message="Once", notification_topic="olga-work", delay="1h")
    call("pause_schedule", schedule_id=cron["schedule_id"])
    JobFactory(owner=owner, task="notify", kwargs={"message": "x", "topic": "y"}, ended=True)
    JobFactory(owner=stranger, task="notify", kwargs={"message": "x", "topic": "olga-home"})
    placed = JobFactory(owner=owner, task="notify", args=["by place", "olga-home"])

    answer = call("list_scheduled_notifications")
    of_topic = call("list_scheduled_notifications", notification_topic="olga-home")

    by_id = {item["schedule_id"]: item for item in answer["schedules"]}
    assert answer["count"] == 3
    assert by_id[cron["schedule_id"]] == {
        "schedule_id": cron["schedule_id"],
        "cron_expression": "0 9 * * *",
        "description": "Every day at 09:00",
        "timezone": "Europe/Berlin",
        "notification_topic": "olga-home",
        "label": "Plants",
        "paused": True,
        "next_occurrence": None,
        "last_occurrence": None,
        "notification_body": "Water the plants",
    }
    assert by_id[once["message_id"]]["scheduled_time"] == once["scheduled_time"]
    assert "cron_expression" not in by_id[once["message_id"]]
    shown = by_id[placed.public_id]
    assert (shown["notification_body"], shown["notification_topic"]) == ("by place", "olga-home")
    assert of_topic["count"] == 2
    assert call("list_scheduled_notifications", notification_topic="none") == {"schedules": [], "count": 0}


def test_current_time_is_returned_in_a_zone(olga, noon):
    assert olga.call("get_current_time", timezone="Asia/Tokyo") == {
        "utc": "2026-02-04T11:00:00+00:00",
        "date": "2026-02-04",
        "time": "20:00:00",
        "timezone": "Asia/Tokyo",
        "local": "2026-02-04T20:00:00+09:00",
        "user_timezone": "Europe/Berlin",
    }
    assert olga.call("get_current_time")["local"] == "2026-02-04T11:00:00+00:00"
    assert olga.call("get_current_time", timezone="Mars") == {
        "success": False,
        "error": "Unknown timezone: Mars",
        "hint": "unknown time zone 'Mars'. Enter a city or a name like Europe/Berlin",
    }


@pytest.mark.parametrize(("length", "is_cut"), [(4_095, False), (4_096, True)])
def test_message_that_will_be_cut_off_has_a_warning(call, cluster, length, is_cut):
    answer = call("schedule_notification", delay="1h", message="x" * length, notification_topic="olga-phone")

    assert ("4,095 bytes" in answer.get("warning", "")) == is_cut
    assert answer["success"]
    by_position = call(
        "schedule_job",
        name="Long",
        task="notify",
        args=["x" * length, "olga-phone"],
        trigger_type="interval",
        trigger_config={"hours": 1},
    )
    assert ("4,095 bytes" in by_position.get("warning", "")) == is_cut


def test_long_list_is_paginated(call, owner):
    notes = {"task": "notify", "kwargs": {"message": "x", "topic": "home"}}
    JobFactory.create_batch(52, owner=owner, **notes)

    first = call("list_scheduled_notifications")
    rest = call("list_scheduled_notifications", offset=first["next_offset"])

    assert (len(first["schedules"]), first["count"], len(rest["schedules"])) == (50, 52, 2)
    assert len(call("list_scheduled_notifications", limit=52)["schedules"]) == 52
    assert call("list_scheduled_notifications", limit=0)["error"] == "limit: choose 1 to 1000"


def test_pause_and_resume_are_repeatable(olga, agent):
    schedule_id = olga.call("schedule_cron_notification", **DAILY)["schedule_id"]

    for _ in range(2):
        assert olga.call("pause_schedule", schedule_id=schedule_id) == {
            "success": True,
            "schedule_id": schedule_id,
            "paused": True,
            "confirmation": f"Schedule {schedule_id} paused successfully",
        }
    for _ in range(2):
        assert olga.call("resume_schedule", schedule_id=schedule_id)["paused"] is False
    services.cancel(agent, schedule_id)
    for tool in ("pause_schedule", "resume_schedule"):
        assert olga.call(tool, schedule_id=schedule_id) == {
            "success": False,
            "schedule_id": schedule_id,
            "error": f"Schedule already cancelled: {schedule_id}",
        }


def test_deleted_schedule_disappears_but_its_executions_are_kept(call, owner):
    job = JobFactory(owner=owner, task="notify")
    ExecutionFactory(job=job, scheduled_for=clock.now() - timedelta(days=1))

    call("delete_schedule", schedule_id=job.public_id)

    assert call("delete_schedule", schedule_id=job.public_id)["success"] is False
    assert call("job_status", job_id=job.public_id)["deleted"].startswith("Deleted on ")
    assert call("list_jobs")["total"] == 0
    assert Execution.objects.count() == 1


def test_delete_during_a_database_outage_does_not_claim_that_nothing_changed(call):
    def fail(*args):
        raise OperationalError("SELECT secrets FROM /var/lib")

    with connection.execute_wrapper(fail):
        answer = call("delete_schedule", schedule_id="scd_1")

    assert answer == {
        "success": False,
        "schedule_id": "scd_1",
        "error": "Failed to delete schedule: the database did not answer, so this may or may not have been done: "
        "look before you repeat it.",
    }


def test_reminder_is_repeated_until_it_is_answered(olga):
    asked = NOTE | {"delay": "1h"}

    assert olga.call("schedule_notification", **asked, ask="every 10m 5 times")["success"]
    assert Job.objects.get().kwargs["ask"] == "every 10m 5 times"
    assert "not understood" in olga.call("schedule_notification", **asked, ask="all the time")["error"]
