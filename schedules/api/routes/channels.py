"""Channels: list, set, test, confirm, rename and delete; their secrets are never shown."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.problems import invalid_value, problem_of
from schedules.api.schemas.channels import (
    ChannelIn,
    ChannelOut,
    ChannelsOut,
    CodeIn,
    DeliveriesOut,
    DeliveryOut,
    NewName,
    SavedChannelOut,
    TestedOut,
)
from schedules.channels.catalog import KINDS
from schedules.result import Code, Err, expect
from schedules.services.documents import channel_json, delivery_json
from schedules.services.people.channel_tests import send_test
from schedules.services.people.channels import (
    confirm_channel,
    delete_channel,
    list_channels,
    listed_channel,
    rename_channel,
    set_channel,
)
from schedules.services.people.webhooks import (
    find_webhook,
    list_deliveries,
    redeliver,
    rotate_secret,
    switch_webhook,
)

router = Router(tags=["channels"])


@reads(router, "", ChannelsOut)
def list_all_channels(request: HttpRequest) -> Any:
    """List channels without their secrets. Only a token of the type Program sees them."""
    actor = actor_of(request)
    if actor.is_agent:
        raise problem_of(Err(Code.CHANNELS_BY_PEOPLE))
    return {"channels": [channel_json(each) for each in list_channels(actor)]}


@changes(router, "PUT", "/{channel}", {200: SavedChannelOut})
def set_one_channel(request: HttpRequest, channel: str, body: ChannelIn) -> Any:
    """Add a channel, or replace everything about the one of this name; send a test afterwards.

    A new webhook gets a secret to check signatures with, which is in this answer alone.
    """
    kind = KINDS.get(body.kind)
    field_names = (
        [field.name for field in kind.fields if not field.is_generated] if kind else list(body.values)
    )
    for name in body.values:
        if name not in field_names:
            raise invalid_value(f"values.{name}", f"unknown field; choose from {', '.join(field_names)}")
    return channel_json(expect(set_channel(actor_of(request), channel, body.kind, body.values)))


@changes(router, "POST", "/{channel}/test", {200: TestedOut}, repeatable=False)
def test_channel(request: HttpRequest, channel: str) -> Any:
    """Send a test message, or the code to an e-mail address that is not confirmed yet."""
    tested = expect(send_test(actor_of(request), channel))
    return {"sent": tested.is_sent, "message": tested.message}


@changes(router, "POST", "/{channel}/confirm", {204: None})
def confirm_one_channel(request: HttpRequest, channel: str, body: CodeIn) -> Any:
    """Confirm an e-mail address with the code that was sent there."""
    expect(confirm_channel(actor_of(request), channel, body.code))
    return Status(204, None)


@changes(router, "POST", "/{channel}/rename", {204: None})
def rename_one_channel(request: HttpRequest, channel: str, body: NewName) -> Any:
    """Give a channel another name; refused while jobs use it."""
    expect(rename_channel(actor_of(request), channel, body.name))
    return Status(204, None)


@changes(router, "DELETE", "/{channel}", {204: None})
def delete_one_channel(request: HttpRequest, channel: str) -> Any:
    """Delete a channel; refused while jobs use it."""
    expect(delete_channel(actor_of(request), channel))
    return Status(204, None)


@changes(router, "POST", "/{channel}/on", {200: ChannelOut})
def switch_channel_on(request: HttpRequest, channel: str) -> Any:
    """Tell a webhook of events again."""
    actor = actor_of(request)
    return channel_json(listed_channel(actor, expect(switch_webhook(actor, channel, is_on=True))))


@changes(router, "POST", "/{channel}/off", {200: ChannelOut})
def switch_channel_off(request: HttpRequest, channel: str) -> Any:
    """Tell a webhook of no events: until it is on again, none are kept for it."""
    actor = actor_of(request)
    return channel_json(listed_channel(actor, expect(switch_webhook(actor, channel, is_on=False))))


@changes(router, "POST", "/{channel}/secret", {200: SavedChannelOut}, repeatable=False)
def rotate_channel_secret(request: HttpRequest, channel: str) -> Any:
    """Give a webhook a new secret; for a day, requests are signed with both."""
    actor = actor_of(request)
    row, secret = expect(rotate_secret(actor, channel))
    return channel_json(listed_channel(actor, row, secret))


@reads(router, "/{channel}/deliveries", DeliveriesOut)
def list_channel_deliveries(request: HttpRequest, channel: str) -> Any:
    """List the last 50 events that were sent to a webhook, newest first."""
    row = expect(find_webhook(actor_of(request), channel))
    return {"deliveries": [delivery_json(each) for each in list_deliveries(row)]}


@changes(router, "POST", "/{channel}/deliveries/{delivery}/send", {202: DeliveryOut})
def send_event_again(request: HttpRequest, channel: str, delivery: int) -> Any:
    """Send an event again, with the same event id."""
    return Status(202, delivery_json(expect(redeliver(actor_of(request), channel, delivery))))
