"""Secrets: written, replaced and deleted by people, and never shown again.

`${secret:NAME}` in a webhook or in a command's arguments means the secret of the job's owner; in commands.toml, it means
the installation's, which superusers manage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django.db import transaction
from django.db.models import Q

from schedules import clock, limits
from schedules.destinations import ascii_host, parse_destination, place
from schedules.encryption import UnreadableError, reseal, seal
from schedules.models import Event, Installation, Secret
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secret_references import NAME
from schedules.services.actors import Actor
from schedules.services.people import profile_of
from schedules.services.quotas import wait_for_turn
from schedules.tasks import registry

# A shorter one could not be masked without masking ordinary words.
SHORTEST_SECRET = 4
LONGEST_SECRET = 16_384
MOST_SECRETS = 200
MOST_PLACES = 20


@dataclass(frozen=True)
class ListedSecret:
    """What people may see of a secret: everything but its value."""

    number: int
    name: str
    hosts: Sequence[str]
    commands: Sequence[str]
    updated_at: datetime
    of_installation: bool

    @classmethod
    def of(cls, row: Secret) -> Self:
        return cls(row.pk, row.name, row.hosts, row.commands, row.updated_at, row.owner_id is None)


def list_secrets(actor: Actor) -> list[ListedSecret]:
    """Return the secrets of this person, and the installation's for a superuser; agents see none."""
    if actor.is_agent:
        return []
    mine = Q(owner=actor.user.pk) | (Q(owner=None) if _is_superuser(actor) else Q(pk__in=()))
    return [ListedSecret.of(row) for row in Secret.objects.filter(mine).order_by("name", "pk")]


def set_secret(
    actor: Actor,
    name: str,
    value: str,
    *,
    hosts: Sequence[str] = (),
    commands: Sequence[str] = (),
    of_installation: bool = False,
) -> Result[ListedSecret]:
    """Add a secret, or replace one together with the hosts and commands that it may go to.

    There is no way to change only where it goes: who does not know the value cannot send it elsewhere.
    """
    if refusal := _refusal(actor, of_installation):
        return refusal
    if problem := _problem(name, value, commands, hosts, of_installation):
        return problem
    now = clock.now()
    owner_id = None if of_installation else actor.user.pk
    # Each place once, in an order that does not depend on how they were typed.
    places = {
        "hosts": sorted({_place_of(host) for host in hosts}),
        "commands": sorted(set(commands)),
    }
    with transaction.atomic():
        _wait_for_turn(actor, of_installation)
        mine = Secret.objects.filter(owner=owner_id)
        row = mine.filter(name=name).first()
        if row is None and mine.count() >= MOST_SECRETS:
            return Err(Code.QUOTA, f"There are {MOST_SECRETS} secrets already: delete one first.")
        before = {"hosts": row.hosts, "commands": row.commands} if row else {}
        row = row or Secret(owner_id=owner_id, name=name, created_at=now)
        row.hosts, row.commands, row.updated_at = places["hosts"], places["commands"], now
        row.sealed = seal(value, row.place)
        row.save()
        _record(actor, "set secret", name, now, before=before, after=places)
    return Ok(ListedSecret.of(row))


def delete_secret(actor: Actor, name: str, *, of_installation: bool = False) -> Result[str]:
    """Delete a secret; runs that refer to it fail from now on."""
    if refusal := _refusal(actor, of_installation):
        return refusal
    with transaction.atomic():
        owner_id = None if of_installation else actor.user.pk
        if not Secret.objects.filter(owner=owner_id, name=name).delete()[0]:
            return Err(Code.NOT_FOUND, f"Secret not found: {name}")
        _record(actor, "delete secret", name, clock.now())
    return Ok(name)


def reseal_secrets() -> list[str]:
    """Encrypt every secret with the current secret key; return the names of those that no known key can read."""
    unreadable = []
    for row in Secret.objects.select_for_update().order_by("pk"):
        try:
            Secret.objects.filter(pk=row.pk).update(sealed=reseal(row.sealed))
        except UnreadableError:
            unreadable.append(row.name)
    return unreadable


def _refusal(actor: Actor, of_installation: bool) -> Err | None:
    if actor.is_agent:
        return Err(Code.FORBIDDEN, "Agents cannot see or change secrets.")
    if of_installation and not _is_superuser(actor):
        return Err(Code.FORBIDDEN, "Only superusers manage the secrets of the installation.")
    return None


def _wait_for_turn(actor: Actor, of_installation: bool) -> None:
    """Have others who set a secret of the same owner wait: no row can be locked before there is one."""
    if of_installation:
        Installation.objects.get_or_create(pk=Installation.ONLY)
        Installation.objects.select_for_update().get(pk=Installation.ONLY)
    else:
        wait_for_turn(profile_of(actor.user))


def _is_superuser(actor: Actor) -> bool:
    return bool(getattr(actor.user, "is_superuser", False))


def _problem(
    name: str, value: str, commands: Sequence[str], hosts: Sequence[str], of_installation: bool
) -> Err | None:
    if not NAME.fullmatch(name):
        return invalid("name", "Use a letter or _ first, then letters, digits and _; at most 64.")
    if not SHORTEST_SECRET <= len(value) <= LONGEST_SECRET:
        return invalid("value", f"Use {SHORTEST_SECRET} to {LONGEST_SECRET:,} characters.")
    if problem := limits.json_problem(value, max_bytes=8 * LONGEST_SECRET):
        return invalid("value", problem)
    if of_installation and hosts:
        return invalid("hosts", "Leave this empty: a secret of the installation goes to commands only.")
    for host in hosts:
        try:
            _place_of(host)
        except ValueError as error:
            return invalid("hosts", str(error))
    if unknown := [command for command in commands if not registry.NAME.fullmatch(command)]:
        return invalid("commands", f"{unknown[0]!r} is not the name of a command.")
    if not hosts and not commands:
        return invalid("commands" if of_installation else "hosts", "Enter at least one host or command.")
    if len(hosts) + len(commands) > MOST_PLACES:
        return invalid("hosts", f"At most {MOST_PLACES} hosts and commands.")
    return None


def _place_of(host: str) -> str:
    """Return an allowed host as a webhook names its own; raises ValueError if it is none."""
    if "/" in host:
        raise ValueError("use one host, like api.example.com or nas.local:8080, not a network.")
    if not host.isascii():
        name, colon, port = host.partition(":")
        host = f"{ascii_host(name)}{colon}{port}"
    found = parse_destination(host)
    name = str(found.network.network_address) if found.network else found.name
    # The port of https needs no mention.
    return place(name, None if found.port == 443 else found.port)


def _record(actor: Actor, verb: str, name: str, now: datetime, **values: Any) -> None:
    Event.objects.create(
        at=now, owner_id=actor.user.pk, actor=actor.label, door=actor.door, verb=verb, subject=name, **values
    )
