"""Calendars, channels and heartbeats over the API."""

import json
import uuid
from datetime import timedelta

import pytest

from schedules import clock
from schedules.models import Calendar, Channel, Execution, Ping, Profile, RunOutput
from tests.api.conftest import Program
from tests.api.test_jobs import fields
from tests.factories import JobFactory

DATES = {"kind": "dates", "lines": ["12-24..01-02 Christmas break"]}


def test_calendar_is_looked_at_set_used_and_deleted(owner, program: Program, strange_program: Program):
    looked_at = program.ok("POST", "/calendars/office/preview", DATES)
    assert not Calendar.objects.exists()
    assert looked_at["days"][0]["title"] == "Christmas break"

    program.ok("PUT", "/calendars/office", DATES)
    job = {"name": "x", "schedule": "every day at 9:00", "task": "tests.ping", "calendars": ["office"]}
    program.ok("POST", "/jobs", job)

    [listed] = program.ok("GET", "/calendars")["calendars"]
    assert (listed["name"], listed["closes"], listed["jobs"]) == ("office", True, ["x"])
    assert strange_program.ok("GET", "/calendars") == {"calendars": []}
    refused = program.call("DELETE", "/calendars/office")
    assert (refused.status_code, json.loads(refused.content)["code"]) == (409, "calendar_in_use")
    program.ok("DELETE", "/jobs/x", **{"If-Match": "*"})
    assert program.call("DELETE", "/calendars/none").status_code == 404


def test_wrong_line_of_a_calendar_is_refused_by_its_field(program: Program):
    answer = program.call("PUT", "/calendars/office", {"kind": "dates", "lines": ["someday"]})

    assert answer.status_code == 422
    assert json.loads(answer.content)["errors"][0]["field"] == "lines"


def test_channel_is_set_renamed_and_deleted_and_its_secret_never_shown(owner, program: Program):
    values = {"chat": "-1001", "token": "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"}
    shown = program.ok("PUT", "/channels/phone", {"kind": "telegram", "values": values})
    program.ok("POST", "/channels/phone/rename", {"name": "mobile"})

    [listed] = program.ok("GET", "/channels")["channels"]
    assert (listed["name"], listed["kind"], listed["options"]["chat"]) == ("mobile", "telegram", "-1001")
    assert "AAbb" not in json.dumps([shown, listed])
    program.ok("DELETE", "/channels/mobile")
    assert not Channel.objects.exists()


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, {"channel": "phone"}),
        ({"channel": "phone"}, {"channel": "phone"}),
        ({"topic": "t"}, {"topic": "t"}),
    ],
)
def test_notification_without_a_place_goes_to_the_default_channel(owner, program: Program, place, expected):
    program.ok("PUT", "/channels/phone", {"kind": "ntfy", "values": {"topic": "secret"}})
    places = {"topic": "plants", "channel": "phone", "failure_topic": "alarm", "alert_channel": "phone"}
    Profile.objects.update_or_create(user=owner, defaults=places)
    job = {
        "name": "x",
        "schedule": "every day at 9:00",
        "task": "notify",
        "kwargs": {"message": "x", **place},
    }

    assert program.ok("POST", "/jobs", job)["kwargs"] == {"message": "x", **expected}
    shown = program.ok("GET", "/me")
    names = ("default_topic", "default_channel", "alert_topic", "alert_channel")
    assert [shown[name] for name in names] == ["plants", "phone", "alarm", "phone"]


def test_named_channel_is_not_joined_by_the_default_topic(owner, program: Program):
    program.ok("PUT", "/channels/phone", {"kind": "ntfy", "values": {"topic": "secret"}})
    Profile.objects.update_or_create(user=owner, defaults={"topic": "plants", "channel": ""})
    kwargs = {"message": "x", "channel": "phone"}
    job = {"name": "x", "schedule": "every day at 9:00", "task": "notify", "kwargs": kwargs}

    assert program.ok("POST", "/jobs", job)["kwargs"] == kwargs


def test_unknown_field_of_a_channel_is_refused_by_name(program: Program):
    answer = program.call("PUT", "/channels/phone", {"kind": "telegram", "values": {"chat_id": "1"}})

    assert answer.status_code == 422
    assert json.loads(answer.content)["errors"][0]["field"] == "values.chat_id"


def test_agents_token_sees_no_channels(owner, program_with):
    agent = program_with(name="agent", kind="conversation")

    assert agent.call("GET", "/channels").status_code == 403
    assert agent.call("PUT", "/channels/x", {"kind": "ntfy", "values": {"topic": "x"}}).status_code == 403


HEARTBEAT = {"name": "Backup", "schedule": "0 3 * * *", "task": "heartbeat", "kwargs": {"grace": "15m"}}


def test_heartbeat_is_pinged_by_token_and_shows_what_came(owner, program: Program, client):
    program.ok("POST", "/jobs", HEARTBEAT)
    rid = str(uuid.uuid4())

    program.ok("POST", "/heartbeats/Backup/ping", {"kind": "start", "run_id": rid})
    program.ok("POST", "/heartbeats/Backup/ping", {"run_id": rid, "exit_code": 3, "output": "disk full\n"})

    row = Execution.objects.get()
    assert (row.status, row.result) == ("failed", {"exit_code": 3})
    assert row.took is not None
    assert RunOutput.objects.get().tail == "disk full"
    [listed] = program.ok("GET", "/heartbeats")["heartbeats"]
    assert (listed["name"], listed["grace"], listed["pings"], listed["last_ping"]) == (
        *("Backup", "15m", 2),
        "fail",
    )
    whole = program.ok("GET", "/heartbeats/Backup")
    assert program.ok("GET", "/jobs/Backup")["ping_url"] == whole["ping_url"]
    assert [(each["kind"], each["exit_code"], each["run_id"]) for each in whole["received"]] == [
        ("fail", 3, rid),
        ("start", None, rid),
    ]
    address = listed["ping_url"].partition("/ping/")[2]
    assert client.get(f"/ping/{address}").status_code == 200


def test_only_a_heartbeat_can_be_pinged_and_only_by_its_owner(program: Program, strange_program: Program):
    program.ok("POST", "/jobs", HEARTBEAT)
    program.ok("POST", "/jobs", {"name": "Other", "schedule": "every hour", "task": "tests.ping"})

    assert program.call("POST", "/heartbeats/Other/ping", {}).status_code == 404
    assert program.call("GET", "/heartbeats/Other").status_code == 404
    assert strange_program.call("POST", "/heartbeats/Backup/ping", {}).status_code == 404
    assert not Ping.objects.exists()


def test_agents_token_does_not_see_the_ping_key(owner, program: Program, program_with):
    program.ok("POST", "/jobs", HEARTBEAT)

    [listed] = program_with(name="agent", kind="conversation").ok("GET", "/heartbeats")["heartbeats"]
    assert listed["ping_url_by_name"] is None
    assert program.ok("GET", "/heartbeats")["heartbeats"][0]["ping_url_by_name"].endswith("/backup")


def test_preferences_are_changed_and_shown(owner, program: Program):
    changes = {
        "timezone": "tokyo",
        "failure_topic": "alarm",
        "quiet_hours": "22:00-7:00",
        "alert_every": "6h",
    }

    changed = program.ok("PATCH", "/preferences", changes)

    expected = {
        "timezone": "Asia/Tokyo",
        "quiet_hours": "22:00-07:00",
        "alert_every": 21_600,
        "week_start": 0,
    }
    assert changed.items() >= expected.items()
    assert program.ok("GET", "/preferences") == changed
    refused = program.call("PATCH", "/preferences", {"timezone": "Mars", "quiet_hours": "at night"})
    assert sorted(fields(refused)) == ["quiet_hours", "timezone"]
    assert program.ok("GET", "/preferences") == changed


def test_upcoming_runs_say_until_when_quiet_hours_hold_a_message(owner, program: Program):
    at = clock.now().replace(hour=12) + timedelta(days=1)
    JobFactory(owner=owner, name="Tea", task="notify", once=True, run_at=at)
    JobFactory(owner=owner, name="Backup", once=True, run_at=at)
    Profile.objects.update(quiet_hours="11:00-14:00", timezone="UTC")

    runs = program.ok("GET", "/upcoming?hours=48")["upcoming"]

    assert {run["name"]: (run["held_until"] or "")[11:16] for run in runs} == {"Tea": "14:00", "Backup": ""}
