"""Receivers of events over the API."""

import json

from schedules.models import EventSubscription
from tests.api.conftest import Program
from tests.receivers import deliveries, listen

BODY = {"name": "n8n", "url": "https://example.com/hook", "types": ["run.failed"], "tag": "backup"}
ROOT = "/event-subscriptions"


def test_receiver_is_added_changed_switched_and_deleted(program: Program, strange_program: Program):
    added = program.ok("POST", ROOT, BODY)
    address = f"{ROOT}/{added['id']}"
    assert added["secret"].startswith("whsec_")
    assert (added["on"], added["types"], added["tag"]) == (True, ["run.failed"], "backup")

    [listed] = program.ok("GET", ROOT)["subscriptions"]
    assert "secret" not in listed
    assert strange_program.ok("GET", ROOT) == {"subscriptions": []}
    assert strange_program.call("DELETE", address).status_code == 404

    changed = program.ok("PUT", address, BODY | {"types": ["prompt.due", "job.changed"], "tag": ""})
    assert (changed["types"], changed["tag"]) == (["prompt.due", "job.changed"], "")
    off = program.ok("POST", f"{address}/off")
    assert (off["on"], off["reason"]) == (False, "Switched off by n8n.")
    assert program.ok("POST", f"{address}/on")["on"] is True
    assert program.ok("POST", f"{address}/secret")["secret"] != added["secret"]
    program.ok("DELETE", address)
    assert not EventSubscription.objects.exists()


def test_mistake_is_refused_by_its_field(program: Program):
    refused = program.call("POST", ROOT, BODY | {"url": "https://127.0.0.1/"})

    assert refused.status_code == 422
    assert json.loads(refused.content)["errors"][0]["field"] == "url"
    assert program.call("POST", ROOT, BODY | {"types": ["nonsense"]}).status_code == 422


def test_test_and_deliveries(program: Program, owner):
    opened = listen(owner)
    address = f"{ROOT}/{opened.subscription.public_id}"

    queued = program.ok("POST", f"{address}/test")
    [listed] = program.ok("GET", f"{address}/deliveries")["deliveries"]

    assert queued == listed
    assert (listed["type"], listed["status"], listed["attempts"]) == ("test", "queued", 0)
    assert listed["id"] == deliveries(opened)[0].pk
    refused = program.call("POST", f"{address}/deliveries/{listed['id']}/send")
    assert json.loads(refused.content)["code"] == "delivery_under_way"


def test_agents_see_no_receivers(program_with, owner):
    listen(owner)
    agent = program_with(kind="conversation")

    refused = agent.call("GET", ROOT)

    assert (refused.status_code, json.loads(refused.content)["code"]) == (403, "events_by_people")
