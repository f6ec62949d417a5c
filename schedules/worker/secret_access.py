"""The secrets of one run: decrypted when the task needs them, and masked in its results and output."""

from collections.abc import Collection
from typing import Any

from schedules.models import Secret
from schedules.secrets.encryption import UnreadableError, unseal
from schedules.secrets.masking import Masker
from schedules.tasks.database_threads import in_thread
from schedules.tasks.interface import Final, RetryLater


class SecretAccess:
    """Gives out the secrets of an owner to one run, and remembers their values in order to mask them."""

    def __init__(self, owner_id: int) -> None:
        self._owner_id = owner_id
        self._used_values: list[str] = []

    async def find(
        self, names: Collection[str], *, host: str = "", command: str = "", of_installation: bool = False
    ) -> dict[str, str]:
        """Return secrets by name; refuse one that is missing or must not go to this host or command."""
        if not names:
            return {}
        owner_id = None if of_installation else self._owner_id
        rows = await in_thread(lambda: list(Secret.objects.filter(owner=owner_id, name__in=names)))
        values = {row.name: _value_for(row, host, command) for row in rows}
        if missing := sorted(set(names) - values.keys()):
            whose = "the installation has no secret" if of_installation else "its owner has no secret"
            raise Final(f"Missing secret {missing[0]}: {whose} of this name.")
        self._used_values += values.values()
        return values

    def mask(self, value: Any) -> Any:
        """Copy a text or a JSON value with the run's secrets masked."""
        return Masker(self._used_values).mask_value(value) if self._used_values else value

    def mask_cut(self, text: str) -> str:
        """Mask the secrets in a text that was cut off, including a partial one at its end."""
        return Masker(self._used_values).split(text)[0]


def _value_for(row: Secret, host: str, command: str) -> str:
    is_allowed = command in row.commands if command else host.lower() in row.hosts
    if not is_allowed:
        raise Final(
            f"The secret {row.name} must not go to {command or host}: add it to the allowed hosts or commands."
        )
    try:
        return unseal(row.sealed, row.place)
    except UnreadableError as error:
        # Not final: another host may be changing the key right now.
        raise RetryLater(
            f"The secret {row.name} cannot be read with this installation's secret key: write it again."
        ) from error
