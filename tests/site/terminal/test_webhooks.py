"""Webhooks in the subcommand for channels."""

import json
import shlex

import pytest

from schedules import clock
from schedules.models import Channel, EventType, Execution
from tests.documented import blocks

pytestmark = pytest.mark.django_db(transaction=True)
ADD = ("channels", "n8n", "--add", "webhook", "url=https://example.com/hook")


def test_webhook_is_added_tested_switched_and_deleted(cronty, owner):
    added = cronty(*ADD)
    assert (added.out.startswith("whsec_"), added.out.count(" ")) == (True, 0)
    assert "It is not shown again" in added.err
    assert Channel.objects.get().event_types == EventType.values

    listed = cronty("channels").out
    assert "n8n" in listed
    assert "whsec_" not in listed
    assert cronty("channels", "n8n", "--test").code == 0
    run = Execution.objects.get()
    assert "test" in cronty("channels", "n8n", "--deliveries").out
    assert cronty("channels", "n8n", "--again", str(run.pk)).code != 0
    Execution.objects.update(status="failed", finished_at=clock.now(), error="example.com answered 500.")
    assert "answered 500" in cronty("channels", "n8n", "--deliveries").out
    assert cronty("channels", "n8n", "--again", str(run.pk)).code == 0

    assert cronty("channels", "n8n", "--off").code == 0
    assert "off: Switched off" in cronty("channels").out
    assert cronty("channels", "n8n", "--on").code == 0
    renewed = json.loads(cronty("channels", "n8n", "--new-secret", "--json").out)
    assert renewed["secret"] != added.out.strip()
    assert cronty("channels", "n8n", "--delete").code == 0
    assert not Channel.objects.exists()


def test_mistake_names_the_field(cronty, owner):
    said = cronty(*ADD[:-1], "url=http://example.com/")

    assert said.code != 0
    assert "Use https://" in said.err


def test_commands_of_the_page_work_in_their_order(cronty, owner):
    (commands,) = blocks("docs/how-to/events.md", "sh")

    for line in commands.lines:
        said = cronty(*shlex.split(line)[1:])
        assert said.code == 0, said.err

    assert not Channel.objects.exists()
