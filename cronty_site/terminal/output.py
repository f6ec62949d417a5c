"""Output for people and for programs: tables that fit the terminal, and JSON."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedules.limits import strip_unprintable
from schedules.when import durations

AS_JSON = "cronty.json"
# Wide enough to shorten nothing in a file or a pipe.
WIDE = 10_000
# Between two columns of a table.
GAP = 2
# The widths to which a text is shortened: before other columns wrap, before narrow ones do, and if nothing else helps.
SHORT, NARROW, SHORTEST = 24, 14, 6
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


def prints_json() -> bool:
    """Return whether the subcommand prints JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(AS_JSON))


def print_message(message: Mapping[str, str]) -> None:
    """Print a note or a question for programs, as one line on standard error."""
    click.echo(json.dumps(message), err=True)


def line(value: Any) -> str:
    """Return a text in one line, without characters that a terminal obeys."""
    return " ".join(strip_unprintable(str(value)).split())


def block(value: str) -> str:
    """Return a text of several lines without characters that a terminal obeys."""
    return strip_unprintable(value.replace("\r\n", "\n"))


def words(value: Any) -> str:
    """Return a value for people: yes and no, durations, lists and named values as they would be written."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Enum():
            return words(value.value)
        case timedelta():
            return durations.in_words(value)
        case list() | tuple():
            return ", ".join(inner_words(item) for item in value)
        case dict():
            return ", ".join(f"{name}: {inner_words(item)}" for name, item in value.items())
    return str(value)


def inner_words(value: Any) -> str:
    """Return a value within a list; a list within it is JSON, so that both can be told apart."""
    return (
        json.dumps(value, ensure_ascii=False)
        if value is None or isinstance(value, list | dict)
        else words(value)
    )


def cell(value: Any) -> Text:
    """Return the cell of a table; known words have their colour."""
    text = line(words(value))
    return Text(text, style=COLOURS.get(text, ""))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, shrink: str = "") -> None:
    """Print a table as wide as the terminal: one column is shortened, the others only wrap between words."""
    out = console()
    cells = [[cell(value) for value in row] for row in rows]
    shrunk = [name == shrink for name in columns]
    texts = [[name, *(row[place].plain for row in cells)] for place, name in enumerate(columns)]
    widths = _widths(texts, shrunk, out.width)
    # In a terminal that is too narrow even so, long lines are better than columns that disappear.
    out.width = max(out.width, sum(widths) + GAP * (len(columns) - 1))
    is_terminal = out.is_terminal
    table = Table(
        box=SIMPLE_HEAD if is_terminal else None,
        show_edge=False,
        pad_edge=False,
        # A box has a space of its own between two columns.
        padding=(0, GAP - 1 if is_terminal else GAP, 0, 0),
    )
    for name, width, is_shrunk in zip(columns, widths, shrunk, strict=True):
        table.add_column(
            name,
            width=width,
            no_wrap=is_shrunk,
            overflow="ellipsis" if is_shrunk else "fold",
            header_style="bold",
        )
    for row in cells:
        table.add_row(*row)
    out.print(table)


def _widths(texts: Sequence[Sequence[str]], shrunk: Sequence[bool], available: int) -> list[int]:
    """Return how wide columns become: the shortened one gives way first, then the others wrap, the widest first."""
    widths = [max(map(cell_len, column)) for column in texts]
    words = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in texts]
    excess = sum(widths) + GAP * (len(widths) - 1) - available
    steps = [
        (True, [SHORT] * len(texts)),
        (False, [max(word, NARROW) for word in words]),
        (True, [NARROW] * len(texts)),
        (False, words),
        (True, [SHORTEST] * len(texts)),
    ]
    for is_shrunk, least in steps:
        places = [place for place, each in enumerate(shrunk) if each == is_shrunk]
        while excess > 0 and (wider := [place for place in places if widths[place] > least[place]]):
            widths[max(wider, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


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
    if prints_json():
        print_message({"note": text})
        return
    console(stderr=True).print(Text(line(text), style="dim"), soft_wrap=True)


def counted(number: int, words: str) -> str:
    """Return "1 job", or "2 jobs"."""
    return f"{number:,} {words}{'' if number == 1 else 's'}"


def iso(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
