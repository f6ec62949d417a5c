"""Stored channels: read and decrypt a channel by name, and record how its last delivery went."""

import asyncio
import json
import logging
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import DatabaseError, connections
from django.db.models import Q

from schedules import clock, limits
from schedules.channels.catalog import KINDS
from schedules.channels.kinds import ChannelKind, Values
from schedules.models import Channel
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.tasks.interface import Final, RetryLater

logger = logging.getLogger(__name__)

# Successes are recorded at most this often, so that a busy channel does not cost a write per message.
RECORD_INTERVAL = timedelta(minutes=1)
LONGEST_ERROR = 500


class OpenChannel(NamedTuple):
    """A channel with its secrets decrypted."""

    pk: int
    name: str
    kind: ChannelKind
    values: Values
    is_confirmed: bool


async def find_channel(owner_id: int, name: str) -> OpenChannel:
    """Return a channel by the name that its owner gave it; raises Final or RetryLater."""
    return await asyncio.to_thread(_find, owner_id, name)


async def record_delivery(channel: OpenChannel, error: str = "", *, has_ended: bool = False) -> None:
    """Record how a delivery went, for the list of channels."""
    await asyncio.to_thread(_record_and_close, channel.pk, error, has_ended)


def open_channel(row: Channel) -> OpenChannel:
    """Decrypt the secrets of a channel; raises RetryLater if they cannot be decrypted, Final if it cannot be used."""
    kind = KINDS.get(row.kind)
    if kind is None:
        raise Final(f"The channel {row.name} is of an unknown kind, {row.kind}.")
    if kind.is_for_staff and not is_staff(row.owner):
        raise Final(f"The channel {row.name} is for staff only, which its owner is not any more.")
    try:
        secrets = json.loads(unseal(row.sealed, row.place)) if row.sealed else {}
    except UnreadableError as error:
        # Not final: another host may be changing the key right now.
        raise RetryLater(
            f"The channel {row.name} cannot be read with this installation's secret key: write it again."
        ) from error
    if row.old_until is None or row.old_until <= clock.now():
        secrets.pop("old_secret", None)
    is_confirmed = row.confirmed_at is not None
    return OpenChannel(row.pk, row.name, kind, {**row.options, **secrets}, is_confirmed)


def is_staff(user: Any) -> bool:
    return bool(getattr(user, "is_staff", False) or getattr(user, "is_superuser", False))


def _find(owner_id: int, name: str) -> OpenChannel:
    try:
        row = Channel.objects.select_related("owner").filter(owner=owner_id, name=name).first()
    finally:
        # Runs must not share database connections.
        connections.close_all()
    if row is None:
        raise Final(f"There is no channel {name}: its owner renamed or deleted it.")
    return open_channel(row)


def _record_and_close(pk: int, error: str, has_ended: bool) -> None:
    try:
        write_outcome(pk, error, clock.now(), has_ended=has_ended)
    finally:
        connections.close_all()


def write_outcome(pk: int, error: str, now: datetime, *, has_ended: bool = False) -> None:
    """Record how a delivery went; an error of the database is only logged.

    A channel that has ended becomes unconfirmed, so that it is not used until its owner replaces it.
    """
    channel = Channel.objects.filter(pk=pk)
    try:
        if error:
            text = limits.strip_unprintable(error)[:LONGEST_ERROR]
            ended = {"confirmed_at": None} if has_ended else {}
            channel.update(last_failed_at=now, last_error=text, **ended)
        else:
            stale = Q(last_sent_at=None) | Q(last_sent_at__lt=now - RECORD_INTERVAL)
            channel.filter(stale | ~Q(last_error="")).update(last_sent_at=now, last_error="")
    except DatabaseError as problem:
        # Do not raise: the message was sent, and a retry would send it again.
        logger.warning("The state of a channel could not be written (%s)", problem)
