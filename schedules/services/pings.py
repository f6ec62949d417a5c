"""Pings as they arrive: their jobs are found by address, and all of a batch are stored in one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Event, Heartbeat, Job, Ping, Profile
from schedules.models.people import is_active
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.creation import schedule
from schedules.services.permissions import Actor, forbidden
from schedules.tasks.heartbeat import HEARTBEAT

# Of a job that the first ping to its address has made.
DEFAULT_EVERY = timedelta(days=1)
MAX_DELAY = timedelta(days=365)


class Address(NamedTuple):
    """The address that a ping was sent to: an id, or a ping key and a name."""

    ping_id: UUID | None = None
    ping_key: str = ""
    slug: str = ""


class Received(NamedTuple):
    """One ping, before its job is known."""

    address: Address
    kind: Ping.Kind
    rid: UUID | None = None
    exit_status: int | None = None
    body: bytes = b""
    sender: str = ""
    late_by: float = 0.0
    create: bool = False


class Accepted(NamedTuple):
    """A ping that is stored."""

    has_created: bool = False


def receive(pings: Sequence[Received]) -> list[Result[Accepted]]:
    """Store a batch of pings; an unknown address costs no more than the query that all of them share."""
    jobs = _find({ping.address for ping in pings})
    answers: list[Result[Accepted]] = []
    signals: dict[int, engine.Signal] = {}
    for number, ping in enumerate(pings):
        job_ids = jobs.get(ping.address, [])
        created = False
        if not job_ids and ping.create and ping.address.slug:
            made = _create(ping.address)
            if isinstance(made, Err):
                answers.append(made)
                continue
            job_ids, created = [made.value.pk], True
            jobs[ping.address] = job_ids
        if len(job_ids) == 1:
            signals[number] = _signal(ping, job_ids[0])
            answers.append(Ok(Accepted(created)))
        else:
            code = Code.PING_SLUG_AMBIGUOUS if job_ids else Code.PING_NOT_FOUND
            answers.append(Err(code, ping.address.slug))
    if signals:
        accepted = engine.receive(list(signals.values()), clock.now())
        for number, is_accepted in zip(signals, accepted, strict=True):
            if not is_accepted:
                answers[number] = Err(Code.PING_NOT_FOUND)
    return answers


def report(
    actor: Actor,
    job: Job,
    kind: Ping.Kind,
    *,
    rid: UUID | None,
    exit_status: int | None,
    body: str,
    sender: str,
    late_by: timedelta,
) -> Result[None]:
    """Store what somebody who may change a job reports about it, without its ping address."""
    if not actor.may_change(job):
        return forbidden(job)
    address = Address()
    ping = Received(address, kind, rid, exit_status, body.encode(), sender, late_by.total_seconds())
    if job.task != HEARTBEAT or engine.receive([_signal(ping, job.pk)], clock.now()) != [True]:
        return Err(Code.PING_NOT_FOUND)
    return Ok(None)


def _find(addresses: Iterable[Address]) -> dict[Address, list[int]]:
    """Return the jobs with each address, with one indexed query for ids and one for names."""
    ids = {address.ping_id for address in addresses if address.ping_id}
    named = {address for address in addresses if not address.ping_id}
    active = Heartbeat.objects.filter(is_active("owner__"), job__deleted_at=None, job__task=HEARTBEAT)
    job_ids: dict[Address, list[int]] = defaultdict(list)
    if ids:
        for ping_id, job_id in active.filter(ping_id__in=ids).values_list("ping_id", "job_id"):
            job_ids[Address(ping_id)].append(job_id)
    if named:
        keys, slugs = {address.ping_key for address in named}, {address.slug for address in named}
        rows = active.filter(Q(owner__cronty_profile__ping_key__in=keys), slug__in=slugs)
        for key, slug, job_id in rows.values_list("owner__cronty_profile__ping_key", "slug", "job_id"):
            job_ids[Address(None, str(key), slug)].append(job_id)
    return job_ids


def _signal(ping: Received, job_id: int) -> engine.Signal:
    late_by = min(max(ping.late_by, 0.0), MAX_DELAY.total_seconds())
    text = ping.body[: limits.PING_BODY_BYTES].decode(errors="replace")
    body = limits.clean_output(text).strip("\n")
    return engine.Signal(job_id, ping.kind, ping.rid, ping.exit_status, body, ping.sender, late_by)


def _create(address: Address) -> Result[Job]:
    """Create the job that the first ping to an address asks for, if somebody has its ping key."""
    profiles = Profile.objects.filter(is_active("user__"), ping_key=address.ping_key).select_related("user")
    profile = profiles.first()
    if profile is None:
        return Err(Code.PING_NOT_FOUND)
    with transaction.atomic():
        # Two first pings at once make one job.
        Profile.objects.select_for_update().filter(pk=profile.pk).values_list("pk").first()
        if known := _find([address]).get(address):
            return (
                Ok(Job.objects.only("pk").get(pk=known[0]))
                if len(known) == 1
                else Err(Code.PING_SLUG_AMBIGUOUS, address.slug)
            )
        actor = Actor(profile.user, Event.Door.PING, "ping")
        made: Any = schedule(
            actor,
            name=address.slug,
            task=HEARTBEAT,
            kwargs={"slug": address.slug},
            trigger_type=Job.TriggerType.INTERVAL,
            every=DEFAULT_EVERY,
        )
    return made if isinstance(made, Err) else Ok(made.value.job)
