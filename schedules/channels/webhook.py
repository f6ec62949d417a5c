"""The kind of channel that sends signed requests to another program: messages, and the events that it wants."""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from schedules import clock, engine, limits
from schedules.channels.kinds import NOTHING_CHOSEN, ChannelKind, Field, Request, Values, server_problem
from schedules.channels.message import Message
from schedules.models import EventType
from schedules.tasks.outbound.signing import signature_header, standard_headers

# The type of a message that a job sends by the channel.
MESSAGE = "message"


def events_problem(text: str) -> str | None:
    unknown = sorted(set(text.replace(",", " ").split()) - {*EventType.values, NOTHING_CHOSEN})
    names = ", ".join(EventType.values)
    return f"Unknown: {unknown[0][:50]}. Choose from: {names}, or {NOTHING_CHOSEN}." if unknown else None


def _tag_problem(text: str) -> str | None:
    return f"Use at most {limits.TAG_LENGTH} characters." if len(text) > limits.TAG_LENGTH else None


def _message_request(values: Values, message: Message) -> Request:
    data = {
        "title": message.title,
        "message": message.text,
        "priority": message.priority,
        "tags": [*message.tags],
        "links": [link._asdict() for link in message.links],
    }
    event = engine.new_event(MESSAGE, data, clock.now())
    if message.key:
        event["id"] = f"msg_{message.key}"
    body = json.dumps(event, ensure_ascii=False).encode()
    return Request(
        values["url"],
        {},
        signed_headers(values, event, body),
        setting="the address of the channel",
        data=body,
    )


def signed_headers(values: Values, event: Mapping[str, Any], body: bytes) -> dict[str, str]:
    """Return the signatures of a request, by Standard Webhooks and as on other webhooks, with one or both secrets."""
    keys = secrets_of(values)
    timestamp = str(int(time.time()))
    return {
        "Cronty-Event": event["type"],
        **standard_headers(keys, event["id"], timestamp, body),
        "Idempotency-Key": event["id"],
        "Cronty-Timestamp": timestamp,
        "Cronty-Signature": signature_header(keys, timestamp, event["id"], body),
    }


def secrets_of(values: Values) -> tuple[str, ...]:
    """Return the secrets to sign with, the newest first."""
    return tuple(values[name] for name in ("secret", "old_secret") if values.get(name))


WEBHOOK = ChannelKind(
    name="webhook",
    title="Webhook",
    fields=(
        Field(
            "url",
            "Address",
            "An https address. Each event and each message is one signed POST request.",
            problem=server_problem,
        ),
        Field(
            "events",
            "Events",
            "What it is told of by itself; without any, it gets only the messages that are sent to it.",
            is_required=False,
            default=" ".join(EventType.values),
            choices=tuple(EventType.choices),
            problem=events_problem,
        ),
        Field("tag", "Only events of jobs with the tag", is_required=False, problem=_tag_problem),
        Field(
            "job",
            "Only events of the job",
            "Its name or id. Leave both empty for all your jobs.",
            is_required=False,
        ),
        Field("secret", "Secret", is_secret=True, is_required=False, is_generated=True),
        Field("old_secret", "Old secret", is_secret=True, is_required=False, is_generated=True),
    ),
    request=_message_request,
    note="For n8n, Zapier, Home Assistant or a server of your own. Its secret for checking signatures is created and shown once.",
)


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def chosen_events(text: str) -> str:
    """Return the types of events in their usual order, separated by spaces; empty for none."""
    words = text.replace(",", " ").split()
    return " ".join(each for each in EventType.values if each in words)
