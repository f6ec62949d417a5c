"""Signatures of webhooks: a key per job, and what is signed with it; docs/how-to/webhooks.md explains them to receivers."""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta

# How long requests are also signed with the key that a job had before.
OVERLAP = timedelta(days=7)


def job_key(owner_key: str, job_id: str, version: int) -> str:
    """Return the signing key of a job; without the owner's key, which is stored, nobody can compute it."""
    digest = hmac.digest(owner_key.encode(), f"webhook {job_id} {version}".encode(), "sha256")
    return f"whsec_{digest.hex()}"


def current_keys(
    owner_key: str, job_id: str, version: int, changed_at: datetime | None, now: datetime
) -> tuple[str, ...]:
    """Return the keys to sign with: the newest first, then the one before it while both are valid."""
    is_overlapping = version > 1 and changed_at is not None and now < changed_at + OVERLAP
    versions = (version, version - 1) if is_overlapping else (version,)
    return tuple(job_key(owner_key, job_id, number) for number in versions)


def signature_header(keys: Sequence[str], timestamp: str, idempotency_key: str, body: bytes) -> str:
    """Return the header: one `v1=…` per key."""
    # Neither of the first two lines can contain a line break, so no part can be moved into another.
    signed = f"{timestamp}\n{idempotency_key}\n".encode() + body
    return ", ".join(f"v1={hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()}" for key in keys)
