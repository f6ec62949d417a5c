"""The task that sends one event to one subscriber; `engine.event_deliveries` creates its runs."""

import asyncio
import json
import random
import time
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.db import connections, transaction

from schedules import clock, engine
from schedules.models import EventSubscription, Execution
from schedules.models.event_subscriptions import GONE
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.secrets.masking import Masker
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.outbound.signing import signature_header, standard_headers
from schedules.tasks.registry import task
from schedules.tasks.replies import beginning, retry_after

# How long to wait after each attempt: eight attempts within a day.
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=8),
    timedelta(hours=8),
)
ATTEMPTS = len(PAUSES) + 1
MAX_QUOTED_CHARACTERS = 300
# Receivers such as n8n read far more; our events are far smaller.
LONGEST_BODY = 256 * 1024
REQUEST_TIMEOUT_SECONDS = 10.0
# How much of a reply is read, for the log.
MAX_REPLY_BYTES = 4096
# The type of the event that a person sends to check that events arrive.
TEST = "test"

_jitter = random.SystemRandom()


class _Delivery(NamedTuple):
    """One event, its subscription and the secrets to sign with."""

    subscription: EventSubscription
    event: dict[str, Any]
    secrets: tuple[str, ...]


@task(
    name=engine.SEND_EVENT,
    title="Events",
    system=True,
    attempts=ATTEMPTS,
    timeout=timedelta(minutes=5),
)
async def send_event(*, run: Run) -> dict[str, Any]:
    """Send one event to the receiver that listens for it."""
    delivery = await asyncio.to_thread(_read, run)
    try:
        reply = await _send(delivery, run)
    except outbound.OutboundError as error:
        if isinstance(error, outbound.Refused):
            raise Final(str(error)) from error
        raise RetryLater(str(error), pause_after(run.attempt)) from error
    masker = Masker(delivery.secrets)
    quoted = masker.mask(beginning(reply, MAX_QUOTED_CHARACTERS, run))
    if 200 <= reply.status < 300:
        return {"event": delivery.event["type"], "status": reply.status, "said": quoted}
    if reply.status == HTTPStatus.GONE:
        await asyncio.to_thread(_switch_off, delivery.subscription.job_id)
        raise Final(GONE)
    problem = f"{urlsplit(delivery.subscription.url).hostname} answered {reply.status}"
    if 300 <= reply.status < 400:
        problem += ", and redirects are not followed: enter the final address"
    pause = max(pause_after(run.attempt), retry_after(reply) or timedelta())
    failure = RetryLater(f"{problem}: {quoted}" if quoted else f"{problem}.", pause)
    # A result shows that the receiver answers at all: the next deliveries need not wait.
    failure.result = {"event": delivery.event["type"], "status": reply.status}
    raise failure


def pause_after(attempt: int) -> timedelta:
    """Return how long to wait after an attempt, with jitter, so that a receiver does not get all retries at once."""
    pause = PAUSES[min(attempt, len(PAUSES)) - 1]
    return pause * _jitter.uniform(0.8, 1.2)


async def _send(delivery: _Delivery, run: Run) -> outbound.Reply:
    event, subscription = delivery.event, delivery.subscription
    body = json.dumps(event, ensure_ascii=False).encode()
    if len(body) > LONGEST_BODY:
        raise Final(f"The event has {len(body)} bytes, more than the {LONGEST_BODY} that receivers take.")
    message_id, timestamp = event["id"], str(int(time.time()))
    return await outbound.send(
        "POST",
        subscription.url,
        headers={
            "content-type": "application/json",
            "Cronty-Event": event["type"],
            "Cronty-Execution": str(run.execution_id),
            "Cronty-Attempt": str(run.attempt),
            **standard_headers(delivery.secrets, message_id, timestamp, body),
            "Idempotency-Key": message_id,
            "Cronty-Timestamp": timestamp,
            "Cronty-Signature": signature_header(delivery.secrets, timestamp, message_id, body),
        },
        content=body,
        timeout=REQUEST_TIMEOUT_SECONDS,
        max_bytes=MAX_REPLY_BYTES,
    )


def _read(run: Run) -> _Delivery:
    now = clock.now()
    try:
        row = Execution.objects.only("given", "job_id").get(pk=run.execution_id)
        subscription = EventSubscription.objects.filter(job=row.job_id).first()
        if subscription is None:
            raise Final("The subscription was deleted.")
        event = (row.given or {}).get("event") or test_event(run.key, subscription)
        return _Delivery(subscription, event, _signing_secrets(subscription, now))
    except UnreadableError as error:
        # Not final: another host may be changing the key right now.
        raise RetryLater(
            "The signing secret cannot be read with this installation's secret key: rotate it.",
            pause_after(run.attempt),
        ) from error
    finally:
        # Runs must not share database connections.
        connections.close_all()


def _signing_secrets(subscription: EventSubscription, now: datetime) -> tuple[str, ...]:
    """Return the secrets to sign with, the newest first; raises UnreadableError if one cannot be decrypted."""
    sealed = [subscription.sealed]
    if subscription.old_sealed and subscription.old_until and now < subscription.old_until:
        sealed.append(subscription.old_sealed)
    return tuple(unseal(text, subscription.place) for text in sealed)


def test_event(key: str, subscription: EventSubscription) -> dict[str, Any]:
    """Return the event for a run that was started by hand."""
    data = {"test": True, "subscription": {"id": subscription.public_id, "name": subscription.name}}
    return engine.new_event(TEST, data, clock.now()) | {"id": f"evt_{key}"}


def _switch_off(job_id: int) -> None:
    try:
        with transaction.atomic():
            engine.pause_for_good(job_id, GONE, clock.now())
    finally:
        connections.close_all()
