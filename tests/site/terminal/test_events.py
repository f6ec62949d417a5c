"""The subcommand for receivers of events."""

import json
import shlex

import pytest

from schedules import clock
from schedules.models import EventSubscription, EventType, Execution
from tests.documented import blocks

pytestmark = pytest.mark.django_db(transaction=True)
URL = "https://example.com/hook"


def test_receiver_is_added_listed_tested_and_deleted(cronty, owner):
    assert "No receivers of events." in cronty("events").out
    added = json.loads(cronty("events", "n8n", "--add", URL, "--json").out)
    assert added["secret"].startswith("whsec_")
    assert added["types"] == EventType.values

    listed = cronty("events").out
    assert "n8n" in listed
    assert "whsec_" not in listed
    tested = json.loads(cronty("events", "n8n", "--test", "--json").out)
    assert "test" in cronty("events", "n8n").out
    assert cronty("events", "n8n", "--again", str(tested["id"])).code != 0
    Execution.objects.update(status="failed", finished_at=clock.now(), error="example.com answered 500.")
    assert "answered 500" in cronty("events", "n8n").out
    assert cronty("events", "n8n", "--again", str(tested["id"])).code == 0

    assert cronty("events", "n8n", "--off").code == 0
    assert "off" in cronty("events").out
    assert cronty("events", "n8n", "--on").code == 0
    renewed = cronty("events", "n8n", "--new-secret")
    assert (renewed.out.startswith("whsec_"), renewed.out.count(" ")) == (True, 0)
    assert "It is not shown again" in renewed.err
    assert cronty("events", "n8n", "--delete").code == 0
    assert not EventSubscription.objects.exists()


def test_types_and_filters_are_chosen(cronty, owner):
    cronty("events", "n8n", "--add", URL, "--type", "run.failed", "--type", "prompt.due", "--tag", "home")

    row = EventSubscription.objects.get()
    assert (row.types, row.tag) == (["prompt.due", "run.failed"], "home")


def test_mistake_names_the_field(cronty, owner):
    said = cronty("events", "n8n", "--add", "http://example.com/")

    assert said.code != 0
    assert "Use an https address" in said.err


def test_commands_of_the_page_work_in_their_order(cronty, owner):
    (commands,) = blocks("docs/how-to/events.md", "sh")

    for line in commands.lines:
        said = cronty(*shlex.split(line)[1:])
        assert said.code == 0, said.err

    assert not EventSubscription.objects.exists()
