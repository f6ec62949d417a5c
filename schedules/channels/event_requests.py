"""Event requests: encode an event for its subscriber, and post it, signed in two ways."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from schedules.models import EventSubscription
from schedules.secrets.encryption import unseal
from schedules.tasks import outbound
from schedules.tasks.outbound.signing import signature_header, standard_headers

# The most that ChatGPT reads; our events are far smaller.
LONGEST_BODY = 256 * 1024
TIMEOUT_SECONDS = 10.0
# How much of a reply is read, for the log.
MAX_REPLY_BYTES = 4096
SUBSCRIPTION_HEADER = "X-MCP-Subscription-Id"


def encode_event(event: Mapping[str, Any], subscription: EventSubscription) -> bytes:
    """Return the body of the request for an event, in the format of the subscription's kind."""
    if subscription.kind == EventSubscription.Kind.MCP:
        event = {
            "eventId": event["id"],
            "name": event["type"],
            "timestamp": event["timestamp"],
            "data": event["data"],
            "cursor": None,
        }
    return json.dumps(event, ensure_ascii=False).encode()


def signing_secrets(subscription: EventSubscription, now: datetime) -> tuple[str, ...]:
    """Return the secrets to sign with, the newest first; raises UnreadableError if one cannot be decrypted."""
    sealed = [subscription.sealed]
    if subscription.old_sealed and subscription.old_until and now < subscription.old_until:
        sealed.append(subscription.old_sealed)
    return tuple(unseal(text, subscription.place) for text in sealed)


async def post(
    url: str, secrets: Sequence[str], message_id: str, body: bytes, headers: Mapping[str, str]
) -> outbound.Reply:
    """Send one signed message; raises OutboundError if there is no reply."""
    timestamp = str(int(time.time()))
    return await outbound.send(
        "POST",
        url,
        headers={
            "content-type": "application/json",
            **headers,
            **standard_headers(secrets, message_id, timestamp, body),
            "Idempotency-Key": message_id,
            "Cronty-Timestamp": timestamp,
            "Cronty-Signature": signature_header(secrets, timestamp, message_id, body),
        },
        content=body,
        timeout=TIMEOUT_SECONDS,
        max_bytes=MAX_REPLY_BYTES,
    )
