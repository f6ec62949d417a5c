"""The task that sends one event to one subscriber; `engine.event_deliveries` creates its runs."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from django.db import connections, transaction

from schedules import clock, engine
from schedules.channels.event_requests import (
    LONGEST_BODY,
    SUBSCRIPTION_HEADER,
    encode_event,
    post,
    signing_secrets,
)
from schedules.models import EventSubscription, Execution
from schedules.models.event_subscriptions import GONE
from schedules.secrets.encryption import UnreadableError
from schedules.secrets.masking import Masker
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run
from schedules.tasks.registry import task
from schedules.tasks.replies import beginning, retry_after
from schedules.tasks.time_limit import TimeLimit

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
# How many requests a process sends to one receiver at a time, and how long the next one waits for its turn.
MAX_CONCURRENT = 4
TURN_TIMEOUT_SECONDS = 20.0
# How long a process leaves a receiver alone after it did not answer.
SILENCE_SECONDS = 3.0
MAX_QUOTED_CHARACTERS = 300
# The type of the event that a person sends to check that events arrive.
TEST = "test"

_jitter = random.SystemRandom()


@dataclass
class _Receiver:
    """The state of one receiver in one event loop."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))
    users: int = 0
    silent_at: float = float("-inf")
    """When a request last got no answer."""

    def is_silent(self, now: float) -> bool:
        return now < self.silent_at + SILENCE_SECONDS


_receivers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Receiver]] = WeakKeyDictionary()


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
    async with _turn(delivery.subscription.pk, run) as receiver:
        try:
            reply = await _send(delivery, run)
        except outbound.OutboundError as error:
            if isinstance(error, outbound.Refused):
                raise Final(str(error)) from error
            receiver.silent_at = asyncio.get_running_loop().time()
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
    raise RetryLater(f"{problem}: {quoted}" if quoted else f"{problem}.", pause)


def pause_after(attempt: int) -> timedelta:
    """Return how long to wait after an attempt, with jitter, so that a receiver does not get all retries at once."""
    pause = PAUSES[min(attempt, len(PAUSES)) - 1]
    return pause * _jitter.uniform(0.8, 1.2)


@asynccontextmanager
async def _turn(key: int, run: Run) -> AsyncIterator[_Receiver]:
    """Wait for a turn at a receiver; raises RetryLater if that takes too long, or if it stopped answering meanwhile.

    Otherwise a thousand runs for a receiver that hangs would time out one after the other.
    """
    loop = asyncio.get_running_loop()
    receivers = _receivers.setdefault(loop, {})
    receiver = receivers.setdefault(key, _Receiver())
    receiver.users += 1
    try:
        try:
            async with TimeLimit(TURN_TIMEOUT_SECONDS):
                await receiver.turns.acquire()
        except TimeoutError:
            raise RetryLater("Put off: the receiver is slow.", pause_after(run.attempt)) from None
        try:
            if receiver.is_silent(loop.time()):
                raise RetryLater("Put off: the receiver did not answer.", pause_after(run.attempt))
            yield receiver
        finally:
            receiver.turns.release()
    finally:
        receiver.users -= 1
        if not receiver.users and not receiver.is_silent(loop.time()):
            receivers.pop(key, None)


async def _send(delivery: _Delivery, run: Run) -> outbound.Reply:
    event, subscription = delivery.event, delivery.subscription
    body = encode_event(event, subscription)
    if len(body) > LONGEST_BODY:
        raise Final(f"The event has {len(body)} bytes, more than the {LONGEST_BODY} that receivers take.")
    headers = {
        "Cronty-Event": event["type"],
        "Cronty-Execution": str(run.execution_id),
        "Cronty-Attempt": str(run.attempt),
    }
    if subscription.kind == EventSubscription.Kind.MCP:
        headers[SUBSCRIPTION_HEADER] = subscription.public_id
    return await post(subscription.url, delivery.secrets, event["id"], body, headers)


def _read(run: Run) -> _Delivery:
    now = clock.now()
    try:
        row = Execution.objects.only("given", "job_id").get(pk=run.execution_id)
        subscription = EventSubscription.objects.filter(job=row.job_id).first()
        is_wanted = EventSubscription.objects.filter(job=row.job_id).has_access(now).exists()
        if subscription is None:
            raise Final("The subscription was deleted.")
        if not is_wanted:
            raise Final("The subscription has expired, or the access of the app that subscribed was revoked.")
        event = (row.given or {}).get("event") or test_event(run.key, subscription)
        return _Delivery(subscription, event, signing_secrets(subscription, now))
    except UnreadableError as error:
        # Not final: another host may be changing the key right now.
        raise RetryLater(
            "The signing secret cannot be read with this installation's secret key: rotate it.",
            pause_after(run.attempt),
        ) from error
    finally:
        # Runs must not share database connections.
        connections.close_all()


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
