"""The user's zone and topic: read and set by agents, and used where a call names none."""

import pytest

from schedules.models import Event, Job, Profile
from tests.mcp.agents import ToolRefusalError

DAILY = {"message": "Tea", "cron": "0 9 * * *", "timezone": "UTC"}
LOCAL = "2030-06-03T15:00:00"


@pytest.fixture
def nowhere(owner, settings):
    """Olga, who has set neither a zone nor a topic."""
    settings.CRONTY_TIME_ZONE = "UTC"
    Profile.objects.filter(user=owner).update(timezone="", topic="", failure_topic="")


def test_preferences_are_set_and_read(call, nowhere, owner):
    assert call("get_preferences")["timezone"] is None
    assert "no time zone" in call("get_preferences")["note"]

    said = call("set_preferences", timezone="Berlin", topic="my-phone")

    assert (said["timezone"], said["topic"]) == ("Europe/Berlin", "my-phone")
    assert "note" not in said
    assert call("get_preferences")["topic"] == "my-phone"
    event = Event.objects.get(verb="set preferences")
    assert (event.owner, event.actor, event.door) == (owner, "laptop", "mcp")
    assert (event.before, event.after) == (
        {"timezone": "", "topic": ""},
        {"timezone": "Europe/Berlin", "topic": "my-phone"},
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give timezone, topic, failure_topic or quiet_hours"),
        ({"timezone": "Atlantis"}, "Unknown timezone: Atlantis"),
        ({"topic": "two words"}, "Invalid topic"),
        ({"failure_topic": "two words"}, "Invalid failure_topic"),
    ],
)
def test_invalid_preferences_are_refused(call, given, words):
    before = call("get_preferences")

    assert words in call("set_preferences", **given)["error"]
    assert call("get_preferences")["timezone"] == before["timezone"]


def test_quiet_hours_are_set_named_and_removed(call, owner):
    said = call("set_preferences", quiet_hours="22:00-7:00")

    assert "During 22:00-07:00, scheduled notifications, reminders and alerts wait" in said["note"]
    assert "send_push_notification goes at once." in call("get_preferences")["note"]
    assert Profile.objects.get(user=owner).quiet_hours == "22:00-07:00"
    assert "Invalid quiet_hours" in call("set_preferences", quiet_hours="at night")["error"]
    assert "note" not in call("set_preferences", quiet_hours="")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("schedule_notification", {"message": "Tea", "delay": "1h"}),
        ("schedule_cron_notification", DAILY),
        (
            "schedule_job",
            {
                "name": "Tea",
                "task": "notify",
                "kwargs": {"message": "Tea"},
                "trigger_type": "interval",
                "trigger_config": {"hours": 1},
            },
        ),
    ],
)
def test_same_call_after_a_change_of_the_topic_is_the_same_request(call, tool, given):
    call("set_preferences", topic="my-phone")
    call(tool, **given, idempotency_key="tea")
    call("set_preferences", topic="my-tablet")

    again = call(tool, **given, idempotency_key="tea")

    assert "error" not in again
    assert Job.objects.get().kwargs["topic"] == "my-phone"


@pytest.mark.parametrize(
    ("tool", "given", "missing"),
    [
        ("send_push_notification", {"message": "Tea"}, "notification_topic"),
        ("schedule_notification", {"message": "Tea", "delay": "1h"}, "notification_topic"),
        ("schedule_cron_notification", DAILY, "notification_topic"),
        ("schedule_cron_notification", {"message": "Tea", "cron": "0 9 * * *"}, "timezone"),
    ],
)
def test_what_neither_the_call_nor_the_user_has_set_is_named(call, nowhere, tool, given, missing):
    with pytest.raises(ToolRefusalError, match=f"Invalid arguments for {tool}: {missing}: Field required"):
        call(tool, **given)

    assert not Job.objects.exists()


NOTE = {"message": "Tea", "notification_topic": "home"}
PING = {"name": "Ping", "task": "tests.ping"}
LOCAL_CALLS = [
    ("schedule_notification", NOTE | {"datetime": LOCAL}),
    ("schedule", {"at": "tomorrow at 9am", "prompt": "Look"}),
    ("schedule_job", PING | {"trigger_type": "cron", "trigger_config": {"expression": "0 9 * * *"}}),
    ("schedule_job", PING | {"trigger_type": "once", "trigger_config": {"run_at": LOCAL}}),
    ("preview_schedule", {"trigger_type": "once", "trigger_config": {"run_at": LOCAL}}),
]


@pytest.mark.parametrize(("tool", "given"), LOCAL_CALLS)
def test_local_time_without_a_zone_is_answered_with_the_zone_it_was_read_in(call, nowhere, tool, given):
    said = str(call(tool, **given))

    assert "read in UTC" in said
    assert "keep it in their preferences" in said


def test_runners_are_told_with_limits_and_what_is_left(call, nowhere, use_runners):
    use_runners(
        '[notes]\ndescription = "Reads my notes."\nkind = "claude"\nmax_turns = 4\nper_day = { runs = 3 }\n'
        'program = "/opt/hidden"\nallow = ["everyone", "agents"]\n'
        '[mine]\ndescription = "x"\nkind = "claude"\nallow = ["everyone"]\n'
    )

    [told] = call("get_preferences")["runners"]

    assert told == "notes: Reads my notes. Limits: 4 turns, 3 runs a day. Left today: 3 of 3 runs."
