"""Incoming pings: find their jobs by address, and store each batch in one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Event, Heartbeat, Job, Ping, Profile
from schedules.models.people import is_active
from schedules.result import Code, Document, Err, Ok, RefusedError, Result, operation
from schedules.services.jobs.creation import schedule
from schedules.services.permissions import Actor, forbidden
from schedules.services.reading import known_job_of
from schedules.tasks.heartbeat import HEARTBEAT

# The interval of a job created by the first ping to its address.
DEFAULT_EVERY = timedelta(days=1)
MAX_DELAY = timedelta(days=365)


class Address(NamedTuple):
    """Where a ping was sent: an id, or a ping key and a name."""

    ping_id: UUID | None = None
    ping_key: str = ""
    slug: str = ""


class Received(NamedTuple):
    """A ping as it arrived, before its job is known."""

    address: Address
    kind: Ping.Kind
    rid: UUID | None = None
    exit_status: int | None = None
    body: bytes = b""
    sender: str = ""
    late_by: float = 0.0
    create: bool = False


class Accepted(NamedTuple):
    """A stored ping, and whether it created its job."""

    has_created: bool = False


def receive(pings: Sequence[Received]) -> list[Result[Accepted]]:
    """Store a batch of pings; unknown addresses cost only the query that the batch shares."""
    jobs = _find({ping.address for ping in pings})
    answers: list[Result[Accepted]] = []
    signals: dict[int, engine.Signal] = {}
    for number, ping in enumerate(pings):
        job_ids = jobs.get(ping.address, [])
        created = False
        if not job_ids and ping.create and ping.address.slug:
            new = _create(ping.address)
            if isinstance(new, Err):
                answers.append(new)
                continue
            job_ids, created = [new.value.pk], True
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


@operation
def ping_heartbeat(
    actor: Actor,
    job: str,
    *,
    kind: str = "end",
    exit_code: int = 0,
    run_id: UUID | None = None,
    output: str = "",
    late_by: float = 0.0,
    sender: str = "",
) -> Document:
    """Report the start or the end of a job that runs elsewhere, like a request to its ping address.

    The report is stored before the answer is sent. One that is repeated with the same `run_id` within 30 seconds, or
    with `late_by`, is stored once.
    """
    target = known_job_of(actor, job)
    if not actor.may_change(target):
        raise RefusedError(forbidden(target))
    end_kind = Ping.Kind.FAIL if exit_code else Ping.Kind.SUCCESS
    ping = Received(
        Address(),
        {"start": Ping.Kind.START, "log": Ping.Kind.LOG}.get(kind, end_kind),
        run_id,
        exit_code if kind == "end" else None,
        output.encode(),
        sender,
        late_by,
    )
    if target.task != HEARTBEAT or engine.receive([_signal(ping, target.pk)], clock.now()) != [True]:
        raise RefusedError(Err(Code.PING_NOT_FOUND))
    return {"stored": True}


def _find(addresses: Iterable[Address]) -> dict[Address, list[int]]:
    """Return the jobs at each address, with one indexed query for ids and one for names."""
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
    """Create the job for the first ping to an address, if somebody has its ping key."""
    profiles = Profile.objects.filter(is_active("user__"), ping_key=address.ping_key).select_related("user")
    profile = profiles.first()
    if profile is None:
        return Err(Code.PING_NOT_FOUND)
    with transaction.atomic():
        # Two simultaneous first pings must create only one job.
        Profile.objects.select_for_update().filter(pk=profile.pk).values_list("pk").first()
        if job_ids := _find([address]).get(address):
            if len(job_ids) > 1:
                return Err(Code.PING_SLUG_AMBIGUOUS, address.slug)
            return Ok(Job.objects.only("pk").get(pk=job_ids[0]))
        actor = Actor(profile.user, Event.Door.PING, "ping")
        result = schedule(
            actor,
            name=address.slug,
            task=HEARTBEAT,
            kwargs={"slug": address.slug},
            trigger_type=Job.TriggerType.INTERVAL,
            every=DEFAULT_EVERY,
        )
    return result if isinstance(result, Err) else Ok(result.value.job)
