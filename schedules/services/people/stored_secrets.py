"""Secrets of people and of the installation: set, replaced, deleted and listed, but never shown again.

`${secret:NAME}` in a webhook or in a command's arguments means the secret of the job's owner; in commands.toml, it means
the installation's, which superusers manage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from django.db import transaction
from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Incident, Job, Secret
from schedules.result import Code, Err, Ok, Result, invalid, sentence
from schedules.secrets import masking
from schedules.secrets.encryption import accepted_keys, seal
from schedules.secrets.references import NAME, names_in, without_references
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor, record_setting
from schedules.services.quotas import wait_for_installation, wait_for_turn
from schedules.tasks import registry
from schedules.tasks.outbound import Refused, Target
from schedules.tasks.outbound.destinations import ascii_host, parse_destination, place
from schedules.when.phrases import PhraseError, parse_end
from schedules.when.triggers import TriggerError

LONGEST_SECRET = 16_384
MAX_SECRETS = 200
MAX_PLACES = 20
NEVER = "never"
LONGEST_PHRASE = 200


@dataclass(frozen=True)
class ListedSecret:
    """What people may see of a secret: everything but its value."""

    number: int
    name: str
    hosts: Sequence[str]
    commands: Sequence[str]
    updated_at: datetime
    of_installation: bool
    expires_at: datetime | None
    is_expired: bool

    @classmethod
    def of(cls, row: Secret) -> Self:
        is_expired = row.expires_at is not None and row.expires_at <= clock.now()
        is_of_installation = row.owner_id is None
        return cls(
            *(row.pk, row.name, row.hosts, row.commands, row.updated_at, is_of_installation),
            *(row.expires_at, is_expired),
        )


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
    expires: str = "",
    of_installation: bool = False,
) -> Result[ListedSecret]:
    """Add a secret, or replace one together with the hosts and commands that it may go to, and its expiry.

    `expires` is a date or time in words; empty or "never" if it does not expire.

    Its destinations cannot be changed alone, so that nobody can send a secret elsewhere without knowing its value.
    """
    if refusal := _refusal(actor, of_installation):
        return refusal
    if problem := _problem(name, value, commands, hosts, of_installation):
        return problem
    try:
        # Sorted and without duplicates, however they were typed.
        places = {"hosts": sorted({_place_of(host) for host in hosts}), "commands": sorted(set(commands))}
    except ValueError as error:
        return invalid("hosts", str(error))
    now = clock.now()
    expiry = _read_expiry(actor, expires, now)
    if isinstance(expiry, Err):
        return expiry
    owner_id = None if of_installation else actor.user.pk
    with transaction.atomic():
        # Lock the profile, because a new secret has no row to lock.
        if not of_installation:
            wait_for_turn(profile_of(actor.user))
        key = current_key()
        if key is None:
            return Err(Code.SECRET_KEY_CHANGED)
        mine = Secret.objects.filter(owner=owner_id)
        row = mine.filter(name=name).first()
        if row is None and mine.count() >= MAX_SECRETS:
            return Err(Code.TOO_MANY_SECRETS, limit=MAX_SECRETS)
        before = {"hosts": row.hosts, "commands": row.commands, **_expiry_of(row)} if row else {}
        row = row or Secret(owner_id=owner_id, name=name, created_at=now)
        row.hosts, row.commands, row.updated_at = places["hosts"], places["commands"], now
        row.expires_at = expiry.value
        row.sealed = seal(value, row.place, key)
        row.save()
        _end_alert(row, now)
        record_setting(actor, "set secret", name, now, before=before, after=places | _expiry_of(row))
    return Ok(ListedSecret.of(row))


def move_expiry(
    actor: Actor, name: str, expires: str, *, of_installation: bool = False
) -> Result[ListedSecret]:
    """Change when a secret expires, without its value; empty or "never" removes the date."""
    if refusal := _refusal(actor, of_installation):
        return refusal
    now = clock.now()
    expiry = _read_expiry(actor, expires, now)
    if isinstance(expiry, Err):
        return expiry
    with transaction.atomic():
        owner_id = None if of_installation else actor.user.pk
        row = Secret.objects.select_for_update(of=("self",)).filter(owner=owner_id, name=name).first()
        if row is None:
            return Err(Code.SECRET_NOT_FOUND, name)
        before = _expiry_of(row)
        row.expires_at = expiry.value
        row.save(update_fields=["expires_at"])
        _end_alert(row, now)
        record_setting(actor, "set secret", name, now, before=before, after=_expiry_of(row))
    return Ok(ListedSecret.of(row))


def _read_expiry(actor: Actor, text: str, now: datetime) -> Result[datetime | None]:
    """Parse when a secret expires, in the person's time zone; a date includes its whole day."""
    phrase = text.strip()
    if phrase.lower() in ("", NEVER):
        return Ok(None)
    try:
        moment = parse_end(phrase[:LONGEST_PHRASE], now=now, timezone=actor.read_profile().zone)
    except (PhraseError, TriggerError) as error:
        return invalid("expires_at", sentence(str(error)))
    if problem := limits.moment_problem(moment):
        return invalid("expires_at", problem)
    return Ok(moment) if moment > now else invalid("expires_at", "Choose a time in the future.")


def _expiry_of(row: Secret) -> dict[str, str]:
    return {"expires_at": row.expires_at.isoformat()} if row.expires_at else {}


def _end_alert(row: Secret, now: datetime) -> None:
    """End the alert about the old date; a new one that is near raises another."""
    engine.end_for_everybody(Incident.Kind.EXPIRING, engine.subject_of_secret(row.pk), now)


def delete_secret(actor: Actor, name: str, *, of_installation: bool = False) -> Result[str]:
    """Delete a secret; runs that refer to it fail from now on."""
    if refusal := _refusal(actor, of_installation):
        return refusal
    with transaction.atomic():
        owner_id = None if of_installation else actor.user.pk
        row = Secret.objects.filter(owner=owner_id, name=name).first()
        if row is None:
            return Err(Code.SECRET_NOT_FOUND, name)
        now = clock.now()
        _end_alert(row, now)
        row.delete()
        record_setting(actor, "delete secret", name, now)
    return Ok(name)


def secret_warnings(actor: Actor, job: Job) -> list[str]:
    """List the secrets that the owner must set or allow before a job can use them; nobody else is told."""
    names = names_in([job.args, job.kwargs])
    if not names or actor.is_agent or actor.user.pk != job.owner_id:
        return []
    is_webhook = job.task == "webhook"
    try:
        target = Target.parse(without_references(str(job.argument("url")))).place if is_webhook else job.task
    except Refused:
        # The address is invalid: its runs fail with that reason.
        return []
    mine = Secret.objects.filter(owner=job.owner_id, name__in=names)
    places = dict(mine.values_list("name", "hosts" if is_webhook else "commands"))
    return [
        f"{name} may not go to {target} yet." if name in places else f"{name} is not among your secrets."
        for name in sorted(names)
        if target not in places.get(name, ())
    ]


def current_key() -> str | bytes | None:
    """Return the key that all hosts can read with, or None if this host does not have it.

    This locks the installation, so that the key does not change before the transaction ends.
    """
    keys = accepted_keys()
    return keys.get(wait_for_installation().secret_fingerprint or next(iter(keys)))


def _refusal(actor: Actor, of_installation: bool) -> Err | None:
    if actor.is_agent:
        return Err(Code.SECRETS_HIDDEN_FROM_AGENTS)
    if of_installation and not _is_superuser(actor):
        return Err(Code.SECRETS_OF_INSTALLATION)
    return None


def _is_superuser(actor: Actor) -> bool:
    return bool(getattr(actor.user, "is_superuser", False))


def _problem(
    name: str, value: str, commands: Sequence[str], hosts: Sequence[str], of_installation: bool
) -> Err | None:
    if not NAME.fullmatch(name):
        return invalid("name", "Use a letter or _ first, then letters, digits and _; at most 64.")
    if not masking.SHORTEST_SECRET <= len(value) <= LONGEST_SECRET:
        return invalid("value", f"Use {masking.SHORTEST_SECRET} to {LONGEST_SECRET:,} characters.")
    if problem := limits.json_problem(value, max_bytes=8 * LONGEST_SECRET):
        return invalid("value", problem)
    if len(masking.visible(value)) < masking.SHORTEST_SECRET:
        return invalid(
            "value", f"Use at least {masking.SHORTEST_SECRET} visible characters: fewer cannot be masked."
        )
    if of_installation and hosts:
        return invalid("hosts", "Leave this empty: a secret of the installation goes to commands only.")
    if unknown := [command for command in commands if not registry.NAME.fullmatch(command)]:
        return invalid("commands", f"{unknown[0]!r} is not the name of a command.")
    if not hosts and not commands:
        return invalid("commands" if of_installation else "hosts", "Enter at least one host or command.")
    if len(hosts) + len(commands) > MAX_PLACES:
        return invalid("hosts", f"At most {MAX_PLACES} hosts and commands.")
    return None


def _place_of(host: str) -> str:
    """Return a host in the form in which a webhook names its own; raises ValueError if it is invalid."""
    if "/" in host:
        raise ValueError("use one host, like api.example.com or nas.local:8080, not a network.")
    if not host.isascii():
        name, colon, port = host.partition(":")
        host = f"{ascii_host(name)}{colon}{port}"
    destination = parse_destination(host)
    return place(
        str(destination.network.network_address) if destination.network else destination.name,
        destination.port,
    )
