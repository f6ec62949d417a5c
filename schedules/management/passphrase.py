"""The passphrase of an archive: from a file, or typed at a terminal."""

import sys
from getpass import getpass
from pathlib import Path

from django.core.management.base import CommandError

SHORTEST = 12


def read_passphrase(file: Path | None, *, otherwise: str, is_new: bool = False) -> str:
    """Return the passphrase; raise CommandError with what to do `otherwise` if there is no way to ask for it."""
    if file:
        try:
            found = file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--passphrase-file: {file} cannot be read ({error}).") from error
    elif sys.stdin.isatty():
        found = getpass("Passphrase: ")
        if is_new and getpass("Again: ") != found:
            raise CommandError("The two differ: nothing was written.")
    else:
        raise CommandError(otherwise)
    if is_new and len(found) < SHORTEST:
        raise CommandError(f"The passphrase is too short: use at least {SHORTEST} characters.")
    return found
