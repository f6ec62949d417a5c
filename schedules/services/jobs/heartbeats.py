"""Ping addresses of heartbeats: one by id each, and one by name under the owner's ping key."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.text import slugify

from schedules.models import Heartbeat, Job, Ping, Profile
from schedules.result import Code, Err, Ok, Result
from schedules.services.people.profiles import profile_of
from schedules.tasks.heartbeat import HEARTBEAT, SLUG_LENGTH, slug_of

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
