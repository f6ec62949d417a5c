"""Webhook signatures: a key per job, and the signed headers; docs/how-to/webhooks.md explains them to receivers."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

# How long requests are also signed with a job's previous key.
OVERLAP = timedelta(days=7)


def job_key(owner_key: str, job_id: str, version: int) -> str:
    """Return the signing key of a job; only the owner's key, which is stored, can derive it."""
    digest = hmac.digest(owner_key.encode(), f"webhook {job_id} {version}".encode(), "sha256")
    return f"whsec_{digest.hex()}"


def current_keys(
    owner_key: str, job_id: str, version: int, changed_at: datetime | None, now: datetime
) -> tuple[str, ...]:
    """Return the keys to sign with: the current one, and the previous one while both are valid."""
    is_overlapping = version > 1 and changed_at is not None and now < changed_at + OVERLAP
    versions = (version, version - 1) if is_overlapping else (version,)
    return tuple(job_key(owner_key, job_id, number) for number in versions)


def signature_header(keys: Sequence[str], timestamp: str, idempotency_key: str, body: bytes) -> str:
    """Return the header: one `v1=…` per key."""
    # The first two parts contain no line break, so that nothing can be shifted from one part to another.
    content = f"{timestamp}\n{idempotency_key}\n".encode() + body
    return ", ".join(f"v1={hmac.new(key.encode(), content, hashlib.sha256).hexdigest()}" for key in keys)


def headers_of_run(
    keys: Sequence[str], key: str, execution_id: int, attempt: int, body: bytes
) -> dict[str, str]:
    """Return the headers that identify and sign a request of a run, whose idempotency key is `key`."""
    timestamp = str(int(time.time()))
    return {
        "Idempotency-Key": key,
        "Cronty-Execution": str(execution_id),
        "Cronty-Attempt": str(attempt),
        "Cronty-Timestamp": timestamp,
        "Cronty-Signature": signature_header(keys, timestamp, key, body),
    }


def standard_signature(key: str, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the Standard Webhooks signature by a key like whsec_…; raises ValueError for another key."""
    try:
        secret = base64.b64decode(key.removeprefix("whsec_"), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    digest = hmac.digest(secret, f"{message_id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def standard_headers(keys: Sequence[str], message_id: str, timestamp: str, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks, with one signature per key."""
    signatures = [standard_signature(key, message_id, timestamp, body) for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }
