"""Webhooks over the API: channels that are told of events."""

import json

from schedules.models import Channel
from tests.api.conftest import Program
from tests.receivers import deliveries, listen

BODY = {
    "kind": "webhook",
    "values": {"url": "https://example.com/hook", "events": "run.failed", "tag": "backup"},
}
ADDRESS = "/channels/n8n"


def test_webhook_is_set_switched_and_deleted(program: Program, strange_program: Program):
    added = program.ok("PUT", ADDRESS, BODY)
    assert added["secret"].startswith("whsec_")
    assert (added["on"], added["options"]["events"], added["options"]["tag"]) == (
        True,
        "run.failed",
        "backup",
    )

    [listed] = program.ok("GET", "/channels")["channels"]
    assert "secret" not in listed
    assert strange_program.call("DELETE", ADDRESS).status_code == 404
    assert strange_program.call("GET", f"{ADDRESS}/deliveries").status_code == 404

    values = {"url": "https://example.com/hook", "events": "prompt.due job.changed"}
    changed = program.ok("PUT", ADDRESS, {"kind": "webhook", "values": values})
    assert (changed["options"]["events"], changed["secret"]) == ("prompt.due job.changed", None)
    off = program.ok("POST", f"{ADDRESS}/off")
    assert (off["on"], off["off_reason"]) == (False, "Switched off by n8n.")
    assert program.ok("POST", f"{ADDRESS}/on")["on"] is True
    assert program.ok("POST", f"{ADDRESS}/secret")["secret"] != added["secret"]
    program.ok("DELETE", ADDRESS)
    assert not Channel.objects.exists()


def test_mistake_is_refused_by_its_field(program: Program):
    refused = program.call("PUT", ADDRESS, {"kind": "webhook", "values": {"url": "https://127.0.0.1/"}})

    assert refused.status_code == 422
    assert json.loads(refused.content)["errors"][0]["field"] == "url"
    chosen = {"kind": "webhook", "values": BODY["values"] | {"secret": "whsec_mine"}}
    assert program.call("PUT", ADDRESS, chosen).status_code == 422


def test_test_and_deliveries(program: Program, owner):
    opened = listen(owner)

    assert program.ok("POST", "/channels/Receiver/test")["sent"] is True
    [listed] = program.ok("GET", "/channels/Receiver/deliveries")["deliveries"]

    assert (listed["type"], listed["status"], listed["attempts"]) == ("test", "queued", 0)
    assert listed["id"] == deliveries(opened)[0].pk
    refused = program.call("POST", f"/channels/Receiver/deliveries/{listed['id']}/send")
    assert json.loads(refused.content)["code"] == "delivery_under_way"
