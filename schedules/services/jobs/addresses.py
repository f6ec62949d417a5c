"""Addresses and keys of jobs: where heartbeats are pinged, trigger addresses, and signing keys of webhooks."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils.text import slugify

from schedules import clock
from schedules.models import Heartbeat, Job, Ping, Profile, Secret, TriggerAddress
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor, change_row, locked_job, record
from schedules.tasks.heartbeat import HEARTBEAT, SLUG_LENGTH, slug_of
from schedules.tasks.outbound.signing import current_keys

PING_PATH = "/ping/"
SHOWN_PINGS = 20


@dataclass(frozen=True, slots=True)
class PingAddress:
    """Where a job's pings are sent."""

    heartbeat: Heartbeat
    url: str
    named_url: str
    """The address with the owner's ping key and the job's slug; empty for a job without a slug."""


def add_heartbeats(jobs: Sequence[Job]) -> None:
    """Give new heartbeats their ping addresses; for existing ones, store the slug if it was changed."""
    if not jobs:
        return
    existing = {each.job_id: each for each in Heartbeat.objects.filter(job__in=jobs)}
    new = []
    for job in jobs:
        chosen = slug_of(job.args, job.kwargs)
        heartbeat = existing.get(job.pk)
        if heartbeat is None:
            slug = chosen or slugify(job.name)[:SLUG_LENGTH].rstrip("-")
            new.append(Heartbeat(job=job, owner_id=job.owner_id, slug=slug))
        elif chosen and chosen != heartbeat.slug:
            # Unless one was chosen, keep the slug: clients use the address.
            Heartbeat.objects.filter(pk=heartbeat.pk).update(slug=chosen)
    Heartbeat.objects.bulk_create(new)
    for owner_id in {heartbeat.owner_id for heartbeat in new}:
        Profile.objects.filter(user=owner_id, ping_key=None).update(ping_key=_new_key())


def ping_address_of(job: Job) -> PingAddress | None:
    """Return the ping address of a heartbeat, or None for any other job."""
    return ping_addresses_of([job]).get(job.pk)


def ping_addresses_of(jobs: Sequence[Job]) -> dict[int, PingAddress]:
    """Return the ping addresses of the heartbeats among these jobs, by job key."""
    keys = [job.pk for job in jobs if job.task == HEARTBEAT]
    heartbeats = list(Heartbeat.objects.filter(job__in=keys)) if keys else []
    owners = {heartbeat.owner_id for heartbeat in heartbeats}
    ping_keys = dict(Profile.objects.filter(user__in=owners).values_list("user", "ping_key"))
    base = f"{settings.CRONTY_URL.rstrip('/')}{PING_PATH}"
    addresses = {}
    for heartbeat in heartbeats:
        key = ping_keys.get(heartbeat.owner_id)
        named = f"{base}{key}/{heartbeat.slug}" if key and heartbeat.slug else ""
        addresses[heartbeat.job_id] = PingAddress(heartbeat, f"{base}{heartbeat.ping_id}", named)
    return addresses


def newest_pings(heartbeat: Heartbeat) -> list[Ping]:
    """Return the last pings of a heartbeat, newest first."""
    return list(Ping.objects.filter(heartbeat=heartbeat).order_by("-number")[:SHOWN_PINGS])


def change_ping_key(user: Any, *, shown: str) -> Result[str]:
    """Replace a user's ping key if it is still the `shown` one; addresses with the old key stop working at once."""
    profile = profile_of(user)
    key = _new_key()
    if not Profile.objects.filter(pk=profile.pk, ping_key=shown or None).update(ping_key=key):
        return Err(Code.PING_KEY_CHANGED)
    return Ok(key)


def _new_key() -> str:
    return secrets.token_urlsafe(16)


TRIGGER_PATH = "/trigger/"
# How long the old key is still accepted beside a new one.
OVERLAP = timedelta(days=7)

Scheme = TriggerAddress.Scheme


class OpenedTrigger(NamedTuple):
    """A trigger address with its key, which nobody can read later."""

    job: Job
    url: str


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def open_trigger(
    actor: Actor, job_id: str, *, scheme: str = "", secret_name: str = ""
) -> Result[OpenedTrigger]:
    """Give a job a trigger address, or a new key for it; the old key is accepted until the overlap ends."""
    now = clock.now()
    if actor.is_agent:
        return Err(Code.SECRETS_HIDDEN_FROM_AGENTS)
    if scheme not in Scheme.values:
        return invalid(
            "scheme", f"Choose one of: {', '.join(filter(None, Scheme.values))}, or leave it empty."
        )
    if scheme and not Secret.objects.filter(owner=actor.user.pk, name=secret_name).exists():
        return invalid("secret", "Name one of your secrets: it verifies the signatures.")
    key = secrets.token_urlsafe(24)
    with transaction.atomic():
        job = locked_job(actor, job_id, may=lambda own: own.owner_id == actor.user.pk)
        if isinstance(job, Err):
            return job
        if job.task == HEARTBEAT:
            return Err(Code.JOB_RUNS_ELSEWHERE, job_id)
        address = TriggerAddress.objects.filter(job=job).first()
        is_new = address is None
        if address is None:
            address = TriggerAddress(job=job, owner_id=job.owner_id, created_at=now)
        else:
            address.old_digest, address.old_until, address.rotated_at = address.digest, now + OVERLAP, now
        address.digest, address.scheme = digest_of(key), scheme
        address.secret_name = secret_name if scheme else ""
        address.save()
        after = {"scheme": scheme} if scheme else {}
        if is_new:
            record(actor, "open trigger", now, job=job, after=after)
        else:
            record(actor, "rotate trigger", now, job=job, after=after)
    return Ok(OpenedTrigger(job, f"{settings.CRONTY_URL.rstrip('/')}{TRIGGER_PATH}{key}"))


def close_trigger(actor: Actor, job_id: str) -> Result[Job]:
    """Remove a job's trigger address; both keys stop working at once."""
    with transaction.atomic():
        job = locked_job(actor, job_id)
        if isinstance(job, Err):
            return job
        if not TriggerAddress.objects.filter(job=job).delete()[0]:
            return Err(Code.TRIGGER_NOT_FOUND)
        record(actor, "close trigger", clock.now(), job=job)
    return Ok(job)


def trigger_of_job(job: Job) -> TriggerAddress | None:
    return TriggerAddress.objects.filter(job=job.pk).first()


def rotate_signing_key(actor: Actor, job_id: str, *, shown: str) -> Result[Job]:
    """Give the actor's job a new signing key; requests are signed with both keys until the overlap ends.

    Refuse this if the shown version is outdated: a second rotation would end the overlap of the first.
    """
    now = clock.now()
    with transaction.atomic():
        job = locked_job(actor, job_id, may=lambda own: own.owner_id == actor.user.pk)
        if isinstance(job, Err):
            return job
        if shown != str(job.signing_version):
            return Err(Code.SIGNING_KEY_ALREADY_ROTATED, job.name)
        change_row(job, now, signing_version=job.signing_version + 1, signing_changed_at=now)
        record(actor, "rotate key", now, job=job)
    return Ok(job)


def signing_keys_of(actor: Actor, job: Job, now: datetime) -> tuple[str, ...]:
    """Return the current signing keys of a webhook, newest first, or none to anybody but its owner."""
    if job.owner_id != actor.user.pk or job.task != "webhook":
        return ()
    owner_key = actor.read_profile().signing_key
    return current_keys(owner_key, job.public_id, job.signing_version, job.signing_changed_at, now)
