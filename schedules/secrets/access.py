"""The secrets of one run: decrypted when the task needs them, and masked in its results and output."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from schedules.secrets.encryption import UnreadableError, unseal
from schedules.secrets.masking import Masker


class StoredSecret(Protocol):
    """An encrypted secret, and the hosts and commands that it may go to."""

    name: str
    sealed: str
    hosts: Any
    commands: Any

    @property
    def place(self) -> str: ...


class SecretAccess:
    """Gives out the secrets of one run, and remembers their values in order to mask them.

    `read` returns the secrets of an owner, or of the installation, by name; it is called in a separate thread. `refused`
    makes the error for a permanent problem, `unreadable` for one that may pass.
    """

    def __init__(
        self,
        owner_id: int,
        read: Callable[[int | None, list[str]], Iterable[StoredSecret]],
        *,
        refused: Callable[[str], Exception],
        unreadable: Callable[[str], Exception],
    ) -> None:
        self._owner_id = owner_id
        self._read = read
        self._refused = refused
        self._unreadable = unreadable
        self._used_values: list[str] = []

    async def find(
        self, names: Collection[str], *, host: str = "", command: str = "", of_installation: bool = False
    ) -> dict[str, str]:
        """Return secrets by name; refuse one that is missing or must not go to this host or command."""
        if not names:
            return {}
        owner_id = None if of_installation else self._owner_id
        rows = await asyncio.to_thread(self._read, owner_id, sorted(names))
        values = {row.name: self._value_for(row, host, command) for row in rows}
        if missing := sorted(set(names) - values.keys()):
            whose = "the installation has no secret" if of_installation else "its owner has no secret"
            raise self._refused(f"Missing secret {missing[0]}: {whose} of this name.")
        self._used_values += values.values()
        return values

    def mask(self, value: Any) -> Any:
        """Copy a text or a JSON value with the run's secrets masked."""
        return Masker(self._used_values).mask_value(value) if self._used_values else value

    def mask_cut(self, text: str) -> str:
        """Mask the secrets in a text that was cut off, including a partial one at its end."""
        return Masker(self._used_values).split(text)[0]

    def _value_for(self, row: StoredSecret, host: str, command: str) -> str:
        target = command or host
        is_allowed = command in row.commands if command else host.lower() in row.hosts
        if not is_allowed:
            raise self._refused(
                f"The secret {row.name} must not go to {target}: add it to the allowed hosts or commands."
            )
        try:
            return unseal(row.sealed, row.place)
        except UnreadableError as error:
            # Not final: another host may be changing the key right now.
            raise self._unreadable(
                f"The secret {row.name} cannot be read with this installation's secret key: write it again."
            ) from error
