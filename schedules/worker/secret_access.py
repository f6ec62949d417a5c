"""The secrets that a run uses: found at the last moment, and masked in everything that it leaves behind."""

import asyncio
from collections.abc import Collection
from typing import Any

from django.db import connections

from schedules.models import Secret
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.tasks.commands.output import Masker
from schedules.tasks.interface import Final, RetryLater


class SecretAccess:
    """The secrets of one run; it remembers which ones were given out."""

    def __init__(self, owner_id: int) -> None:
        self._owner_id = owner_id
        self._given: list[str] = []

    async def find(
        self, names: Collection[str], *, host: str = "", command: str = "", of_installation: bool = False
    ) -> dict[str, str]:
        """Return secrets by name; raises Final for one that is missing or must not go to this host or command."""
        if not names:
            return {}
        owner_id = None if of_installation else self._owner_id
        rows = await asyncio.to_thread(_read, owner_id, sorted(names))
        found = {row.name: _value_for(row, host, command) for row in rows}
        if missing := sorted(set(names) - found.keys()):
            whose = "the installation has no secret" if of_installation else "its owner has no secret"
            raise Final(f"Missing secret {missing[0]}: {whose} of this name.")
        self._given += found.values()
        return found

    def mask(self, value: Any) -> Any:
        """Copy a text or a JSON value without the secrets that were given out."""
        return _masked(value, Masker(self._given)) if self._given else value

    def mask_cut(self, text: str) -> str:
        """Mask the secrets in a text that was cut off, also the part of one at its end."""
        return Masker(self._given).split(text)[0]


def _read(owner_id: int | None, names: list[str]) -> list[Secret]:
    try:
        return list(Secret.objects.filter(owner=owner_id, name__in=names))
    finally:
        # This thread is not used again.
        connections.close_all()


def _value_for(row: Secret, host: str, command: str) -> str:
    target = command or host
    is_allowed = command in row.commands if command else host.lower() in row.hosts
    if not is_allowed:
        raise Final(
            f"The secret {row.name} must not go to {target}: add it to the allowed hosts or commands."
        )
    try:
        return unseal(row.sealed, row.place)
    except UnreadableError as error:
        # Another host may be about to change the key.
        raise RetryLater(
            f"The secret {row.name} cannot be read with this installation's secret key: write it again."
        ) from error


def _masked(value: Any, masker: Masker) -> Any:
    match value:
        case str():
            return masker.mask(value)
        case list() | tuple():
            return [_masked(item, masker) for item in value]
        case dict():
            return {_masked(key, masker): _masked(item, masker) for key, item in value.items()}
        case _:
            return value
