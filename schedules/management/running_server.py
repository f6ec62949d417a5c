"""The address that the last web process serves, noted in the data folder for commands in other shells."""

import re
from contextlib import suppress
from pathlib import Path

FILE = "web.address"


def note_address(folder: Path, url: str) -> None:
    # Commands guess the address then.
    with suppress(OSError):
        (folder / FILE).write_text(url)


def noted_address(folder: Path) -> str:
    """Return the noted address; empty if there is none."""
    try:
        text = (folder / FILE).read_text()
    except (OSError, ValueError):
        return ""
    return text if re.fullmatch(r"https?://[^\s/?#@]+", text) else ""
