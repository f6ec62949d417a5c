"""Receivers of events in tests: webhooks of a local server, their deliveries, and a verifier of its own."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth.models import User

from schedules import clock, engine
from schedules.engine import Started
from schedules.engine.event_deliveries import Happening, publish
from schedules.models import Channel, Cluster, Event, EventType, Execution, Job
from schedules.result import Ok
from schedules.services import Actor
from schedules.services.people.channels import set_channel
from schedules.tasks import registry
from schedules.worker.calls import run_coroutine
from tests.sink import Received

EVERYTHING = " ".join(EventType.values)


class Receiver(NamedTuple):
    """A webhook as it was stored, and its secret."""

    channel: Channel
    secret: str


def person(user: User) -> Actor:
    return Actor(user, Event.Door.WEB)


def listen(
    user: User,
    url: str = "https://example.com/events",
    events: str = EVERYTHING,
    name: str = "Receiver",
    **values: str,
) -> Receiver:
    """Add a webhook of this person, as the page does."""
    result = set_channel(person(user), name, "webhook", {"url": url, "events": events, **values})
    assert isinstance(result, Ok), result
    row = Channel.objects.select_related("job").get(pk=result.value.number)
    return Receiver(row, result.value.new_secret)


def happen(job: Job, count: int = 1) -> None:
    """Let something happen to a job, as often as that in one moment."""
    publish([Happening(EventType.APPROVAL_REQUESTED, job.pk) for _ in range(count)], clock.now())


def deliveries(opened: Receiver) -> list[Execution]:
    """Return the deliveries to a webhook, oldest first."""
    return list(Execution.objects.filter(job=opened.channel.job_id).order_by("pk"))


def events_of(opened: Receiver) -> list[dict[str, Any]]:
    return [(row.given or {})["event"] for row in deliveries(opened)]


def start_ready(cluster: Cluster, now: datetime | None = None) -> list[Started]:
    """Claim and start what is ready."""
    now = now or clock.now()
    claims = engine.claim_runs(cluster.pk, now, 2000)
    by_attempt: dict[int, list[int]] = {}
    for claim in claims:
        by_attempt.setdefault(claim.attempt, []).append(claim.execution_id)
    return [
        run
        for attempt, keys in by_attempt.items()
        for run in engine.start_runs(cluster.pk, attempt, keys, now)
    ]


def call(runs: Sequence[Started], run: Callable[[Any], Any] = asyncio.run) -> list[engine.Outcome]:
    """Call the tasks of started runs together, as a worker does."""

    async def together() -> list[engine.Outcome]:
        return list(await asyncio.gather(*(run_coroutine(one, registry.get(one.task)) for one in runs)))

    outcomes: list[engine.Outcome] = run(together())
    return outcomes


def deliver(
    cluster: Cluster, now: datetime | None = None, run: Callable[[Any], Any] = asyncio.run
) -> list[engine.Outcome]:
    """Send what is ready, and write how that went."""
    outcomes = call(start_ready(cluster, now), run)
    engine.settle_runs(cluster.pk, outcomes)
    return outcomes


def is_genuine(received: Received, secret: str) -> bool:
    """Verify a message as the specification of Standard Webhooks says, without our own code."""
    headers = received.headers
    key = base64.b64decode(secret.split("_", 1)[1])
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), received.body])
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(
        version == "v1" and hmac.compare_digest(signature, wanted)
        for version, _, signature in (each.partition(",") for each in headers["webhook-signature"].split(" "))
    )


def sent(received: Received) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(received.body)
    return body
