"""The task that sends one event to a channel; `engine.event_deliveries` creates its runs."""

import asyncio
import json
import random
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.db import connections, transaction

from schedules import clock, engine
from schedules.channels.kinds import Values
from schedules.channels.stored import OpenChannel, open_channel
from schedules.channels.webhook import secrets_of, signed_headers
from schedules.models import Channel, Execution
from schedules.models.channels import GONE
from schedules.secrets.masking import Masker
from schedules.tasks import outbound
from schedules.tasks.interface import Final, RetryLater, Run
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
    """One event and its receiver."""

    channel: OpenChannel
    job_id: int
    event: dict[str, Any]


@task(
    name=engine.SEND_EVENT,
    title="Events",
    system=True,
    attempts=ATTEMPTS,
    timeout=timedelta(minutes=5),
)
async def send_event(*, run: Run) -> dict[str, Any]:
    """Send one event to the channel that is told of it."""
    delivery = await asyncio.to_thread(_read, run)
    event, values = delivery.event, delivery.channel.values
    try:
        reply = await _send(event, values, run)
    except outbound.OutboundError as error:
        if isinstance(error, outbound.Refused):
            raise Final(str(error)) from error
        raise RetryLater(str(error), pause_after(run.attempt)) from error
    quoted = Masker(secrets_of(values)).mask(beginning(reply, MAX_QUOTED_CHARACTERS, run))
    if 200 <= reply.status < 300:
        return {"event": event["type"], "status": reply.status, "said": quoted}
    if reply.status == HTTPStatus.GONE:
        await asyncio.to_thread(_switch_off, delivery.job_id)
        raise Final(GONE)
    problem = f"{urlsplit(values['url']).hostname} answered {reply.status}"
    if 300 <= reply.status < 400:
        problem += ", and redirects are not followed: enter the final address"
    pause = max(pause_after(run.attempt), retry_after(reply) or timedelta())
    failure = RetryLater(f"{problem}: {quoted}" if quoted else f"{problem}.", pause)
    # A result shows that the receiver answers at all: the next deliveries need not wait.
    failure.result = {"event": event["type"], "status": reply.status}
    raise failure


def pause_after(attempt: int) -> timedelta:
    """Return how long to wait after an attempt, with jitter, so that a receiver does not get all retries at once."""
    pause = PAUSES[min(attempt, len(PAUSES)) - 1]
    return pause * _jitter.uniform(0.8, 1.2)


async def _send(event: dict[str, Any], values: Values, run: Run) -> outbound.Reply:
    body = json.dumps(event, ensure_ascii=False).encode()
    if len(body) > LONGEST_BODY:
        raise Final(f"The event has {len(body)} bytes, more than the {LONGEST_BODY} that receivers take.")
    return await outbound.send(
        "POST",
        values["url"],
        headers={
            "content-type": "application/json",
            "Cronty-Execution": str(run.execution_id),
            "Cronty-Attempt": str(run.attempt),
            **signed_headers(values, event, body),
        },
        content=body,
        timeout=REQUEST_TIMEOUT_SECONDS,
        max_bytes=MAX_REPLY_BYTES,
    )


def _read(run: Run) -> _Delivery:
    try:
        row = Execution.objects.only("given", "job_id").get(pk=run.execution_id)
        channel = Channel.objects.select_related("owner").filter(job=row.job_id).first()
        if channel is None or row.job_id is None:
            raise Final("The channel was deleted.")
        event = (row.given or {}).get("event") or new_test_event(channel, f"evt_{run.key}")
        return _Delivery(open_channel(channel), row.job_id, event)
    except RetryLater as error:
        # Another host may be changing the secret key right now.
        error.after = pause_after(run.attempt)
        raise
    finally:
        # Runs must not share database connections.
        connections.close_all()


def new_test_event(channel: Channel, event_id: str = "") -> dict[str, Any]:
    """Return the event that shows whether events arrive."""
    data = {"test": True, "channel": channel.name, "events": channel.event_types}
    event = engine.new_event(TEST, data, clock.now())
    return event | {"id": event_id} if event_id else event


def _switch_off(job_id: int) -> None:
    try:
        with transaction.atomic():
            engine.pause_for_good(job_id, GONE, clock.now())
    finally:
        connections.close_all()
