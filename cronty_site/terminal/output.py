"""Output for people and for programs: tables that fit the terminal, and JSON."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedules.limits import strip_unprintable

# Wide enough to shorten nothing in a file or a pipe.
WIDE = 10_000
COLOURS = {
    "succeeded": "green",
    "completed": "green",
    "running": "cyan",
    "pending": "blue",
    "paused": "yellow",
    "waiting": "yellow",
    "failed": "red",
    "lost": "red",
    "missed": "red",
    "cancelled": "dim",
    "skipped": "dim",
    "create": "green",
    "change": "yellow",
    "delete": "red",
    "ok": "green",
    "warning": "yellow",
    "problem": "red",
}
# What json.dumps leaves as it is: DEL, C1 controls, which terminals obey, and everything else that is not ASCII.
_UNESCAPED = re.compile("[^\n -~]")


def console(*, stderr: bool = False) -> Console:
    """Return a console for this moment's streams, in colour only on a terminal without NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    is_wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream, width=WIDE if is_wide else None, highlight=False, soft_wrap=False, emoji=False
    )


def print_json(value: Any) -> None:
    """Print a value as JSON, without characters that a terminal obeys."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    click.echo(_UNESCAPED.sub(_printable, text))


def _printable(found: re.Match[str]) -> str:
    # Also what reorders or hides the text around it.
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def line(value: Any) -> str:
    """Return a text in one line, without characters that a terminal obeys."""
    return " ".join(strip_unprintable(str(value)).split())


def block(value: str) -> str:
    """Return a text of several lines without characters that a terminal obeys."""
    return strip_unprintable(value.replace("\r\n", "\n"))


def cell(value: Any) -> Text:
    """Return the cell of a table; known words have their colour."""
    text = line("" if value is None else value)
    return Text(text, style=COLOURS.get(text, ""))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, shrink: str = "") -> None:
    """Print a table; only the column to shrink is shortened, the others wrap where the terminal is too narrow."""
    out = console()
    table = Table(box=SIMPLE_HEAD if out.is_terminal else None, show_edge=False, pad_edge=False)
    for name in columns:
        is_shrunk = name == shrink
        table.add_column(
            name,
            no_wrap=is_shrunk or name == "#",
            overflow="ellipsis" if is_shrunk else "fold",
            header_style="bold",
            min_width=8 if is_shrunk else None,
        )
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    out.print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values below each other; empty values are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            table.add_row(Text(line(name)), cell(value))
    console().print(table)


def say(text: str, style: str = "") -> None:
    """Print one line for a person."""
    console().print(Text(line(text), style=style), soft_wrap=True)


def note(text: str) -> None:
    """Print one line beside the output, on standard error."""
    console(stderr=True).print(Text(line(text), style="dim"), soft_wrap=True)


def counted(number: int, words: str) -> str:
    """Return "1 job", or "2 jobs"."""
    return f"{number:,} {words}{'' if number == 1 else 's'}"


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
