"""Times as people of five languages write them: right at once, or after the one error that says what to send."""

import json
import re

import jsonschema
import pytest
import time_machine

from schedules.models import Job
from tests.mcp.contract import recorded
from tests.mcp.habits import HABITS

SCHEMAS = {tool["name"]: tool["inputSchema"] for tool in recorded()["tools"]}
SLASHES = r"\d{1,2}/\d{1,2}/\d{4}"


@pytest.fixture(autouse=True)
def noon():
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        yield


def send(call, habit, text):
    """Call the tool of the list that takes this time; the arguments are what its schema allows."""
    tool, more = "schedule_notification", {"datetime": text}
    if habit.repeats:
        tool, more = "schedule_cron_notification", {"cron": text, "timezone": "Europe/Berlin"}
    arguments = {"message": "Hello", "notification_topic": "my-phone", **more}
    jsonschema.validate(arguments, SCHEMAS[tool])
    return call(tool, **arguments)


def proposed(text, said):
    """Return what an error proposes to send instead of a text: what it quotes, or the date that it writes."""
    if date := re.search(r"Write (\d{4}-\d\d-\d\d)\b(?! or)", said):
        return re.sub(SLASHES, date[1], text)
    quoted = re.search(r'(?:Did you mean |write )"(.+?)"', said)
    assert quoted, said
    return quoted[1]


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.says)
def test_time_in_the_habit_of_a_language_is_right_after_one_error_at_most(call, owner, habit):
    said = send(call, habit, habit.text)

    assert said["success"] is not habit.is_cured, said
    if habit.is_cured:
        said = send(
            call, habit, proposed(habit.text, json.dumps(said, ensure_ascii=False).replace('\\"', '"'))
        )
    assert said["success"] is True
    [job] = Job.objects.all()
    if habit.repeats:
        assert job.cron == habit.means
    else:
        assert said["scheduled_time"].startswith(habit.means)
