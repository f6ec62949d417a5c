"""Verify signed requests to trigger addresses, from GitHub, Stripe, Standard Webhooks or Cronty itself."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from schedules.models import TriggerAddress
from schedules.tasks.outbound.signing import signature_header, standard_signature

# How far a sender's clock may be off.
TOLERANCE = timedelta(minutes=5)
Scheme = TriggerAddress.Scheme


class Verified(NamedTuple):
    """A genuine message: its id, and its signature, which is the same in a replay."""

    message_id: str
    signature: str


def verify(
    scheme: str, secret: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> Verified | str:
    """Return the id of a correctly signed message, or what is wrong with it; header names are lowercase."""
    match scheme:
        case Scheme.GITHUB:
            return _github(secret, headers, body)
        case Scheme.STRIPE:
            return _stripe(secret, headers, body, now)
        case Scheme.STANDARD:
            return _standard(secret, headers, body, now)
        case Scheme.CRONTY:
            return _cronty(secret, headers, body, now)
        case _:
            # The address itself is the secret; the sender may give the message an id.
            return Verified(headers.get("idempotency-key", "")[:200], "")


def _github(secret: str, headers: Mapping[str, str], body: bytes) -> Verified | str:
    received = headers.get("x-hub-signature-256", "")
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    # GitHub's delivery id is not signed, so the signature serves as the id.
    return (
        Verified(expected, expected)
        if _is_among(expected, [received])
        else _wrong("X-Hub-Signature-256", received)
    )


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    header = headers.get("stripe-signature", "")
    parts = [part.strip().partition("=") for part in header.split(",")[:20]]
    timestamp = next((value for name, _, value in parts if name == "t"), "")
    if problem := _time_problem(timestamp, now):
        return problem
    expected = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    if not _is_among(expected, (value for name, _, value in parts if name == "v1")):
        return _wrong("Stripe-Signature", header)
    try:
        event_id = json.loads(body)["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        event_id = None
    return Verified(event_id if isinstance(event_id, str) else expected, expected)


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id:
        return "The header webhook-id is missing."
    if problem := _time_problem(timestamp, now):
        return problem
    header = headers.get("webhook-signature", "")
    try:
        expected = standard_signature(secret, message_id, timestamp, body)
    except ValueError:
        return "The secret of this address is no key of Standard Webhooks: whsec_ and base64."
    is_right = _is_among(expected, header.split(" ")[:20])
    return Verified(message_id, expected) if is_right else _wrong("webhook-signature", header)


def _cronty(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> Verified | str:
    key, timestamp = headers.get("idempotency-key", ""), headers.get("cronty-timestamp", "")
    if problem := _time_problem(timestamp, now):
        return problem
    header = headers.get("cronty-signature", "")
    expected = signature_header([secret], timestamp, key, body)
    is_right = _is_among(expected, (part.strip() for part in header.split(",")[:20]))
    return Verified(key or expected, expected) if is_right else _wrong("Cronty-Signature", header)


def _time_problem(timestamp: str, now: datetime) -> str:
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return "The time of the signature is missing."
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE.total_seconds():
        return "The signature is too old, or the clock of the sender is wrong."
    return ""


def _is_among(expected: str, received: Iterable[str]) -> bool:
    return any(hmac.compare_digest(expected.encode(), each.encode("utf-8", "replace")) for each in received)


def _wrong(header: str, received: str) -> str:
    return f"The header {header} is {'wrong' if received else 'missing'}."
