"""Print for people and for programs: tables that fit the terminal, and JSON."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from schedules.limits import strip_unprintable
from schedules.when import durations

T = TypeVar("T")

AS_JSON = "cronty.json"
# Wide enough that nothing is shortened in a file or a pipe.
WIDE = 10_000
# Blanks between two columns of a table.
GAP = 2
# The widths to which a text is shortened: first, and after the other columns are wrapped.
SHORT, SHORTEST = 24, 6
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
# Characters that json.dumps does not escape: DEL, C1 controls, which terminals obey, and everything beyond ASCII.
_UNESCAPED = re.compile("[^\n -~]")


def console(*, stderr: bool = False) -> Console:
    """Return a rich console for the current streams, in colour only on a terminal without NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    is_wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream, width=WIDE if is_wide else None, highlight=False, soft_wrap=False, emoji=False
    )


@contextmanager
def waiting(text: str) -> Iterator[Callable[[], None]]:
    """Show a spinner inside the block, or until the yielded function is called."""
    with Status(text, console=console(stderr=True)) as status:
        yield status.stop


def print_json(value: Any) -> None:
    """Print a value as JSON, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    click.echo(_UNESCAPED.sub(_printable, text))


def _printable(character: re.Match[str]) -> str:
    # Also escapes characters that reorder or hide the text around them.
    return character[0] if character[0].isprintable() else json.dumps(character[0])[1:-1]


def prints_json() -> bool:
    """Return whether the subcommand prints JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(AS_JSON))


def print_message(message: Mapping[str, str]) -> None:
    """Print a note or a question for programs, as one line on standard error."""
    click.echo(json.dumps(message), err=True)


def line(value: Any) -> str:
    """Return a text in one line, without control characters."""
    return " ".join(strip_unprintable(str(value)).split())


def block(value: str) -> str:
    """Return a text of several lines, without control characters."""
    return strip_unprintable(value.replace("\r\n", "\n"))


def readable(value: Any) -> str:
    """Format a value for people: yes and no, durations, lists and named values."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Enum():
            return readable(value.value)
        case timedelta():
            return durations.in_words(value)
        case list() | tuple():
            return ", ".join(_inner(item) for item in value)
        case dict():
            return ", ".join(f"{name}: {_inner(item)}" for name, item in value.items())
    return str(value)


def _inner(value: Any) -> str:
    """Format a value within a list; a nested list is JSON, to distinguish the two."""
    return (
        json.dumps(value, ensure_ascii=False)
        if value is None or isinstance(value, list | dict)
        else readable(value)
    )


def cell(value: Any) -> Text:
    """Return the cell of a table; some words, such as statuses, have a colour."""
    text = line(readable(value))
    return Text(text, style=COLOURS.get(text, ""))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, shrink: str = "") -> None:
    """Print a table as wide as the terminal: one column is shortened, the others only wrap between words."""
    out = console()
    cells = [[cell(value) for value in row] for row in rows]
    shrunk = [name == shrink for name in columns]
    texts = [[name, *(row[place].plain for row in cells)] for place, name in enumerate(columns)]
    widths = _widths(texts, shrunk, out.width)
    # If the terminal is still too narrow, long lines are better than missing columns.
    out.width = max(out.width, sum(widths) + GAP * (len(columns) - 1))
    is_terminal = out.is_terminal
    table = Table(
        box=SIMPLE_HEAD if is_terminal else None,
        show_edge=False,
        pad_edge=False,
        # A box adds its own space between two columns.
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
    """Return the widths of columns: first the shortened one shrinks, then the widest, down to its longest word."""
    widths = [max(map(cell_len, column)) for column in texts]
    words = [max(cell_len(word) for text in column for word in text.split() or [""]) for column in texts]
    excess = sum(widths) + GAP * (len(widths) - 1) - available
    first = [SHORT if is_shrunk else width for is_shrunk, width in zip(shrunk, widths, strict=True)]
    last = [SHORTEST if is_shrunk else word for is_shrunk, word in zip(shrunk, words, strict=True)]
    for least in (first, last):
        while excess > 0 and (wider := [n for n, width in enumerate(widths) if width > least[n]]):
            widths[max(wider, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def print_list(
    items: Sequence[T],
    columns: Sequence[str],
    as_row: Callable[[T], Sequence[Any]],
    *,
    shrink: str,
    if_none: str,
) -> None:
    """Print documents as JSON or as a table, or this sentence if there are none."""
    if prints_json():
        print_json(items)
    elif items:
        print_table(columns, map(as_row, items), shrink=shrink)
    else:
        say(if_none)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one per line, without empty values."""
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


def answer(data: Any, text: str, style: str = "green") -> None:
    """Print data for programs, or one line for a person."""
    if prints_json():
        print_json(data)
    else:
        say(text, style)


def show_once(data: Any, secret: str, text: str) -> None:
    """Print data for programs, or a secret alone on standard output, so that scripts can take it, and a note beside it."""
    if prints_json():
        print_json(data)
        return
    console().print(Text(line(secret)), soft_wrap=True)
    note(text)


def note(text: str) -> None:
    """Print one line on standard error, apart from the output."""
    if prints_json():
        print_message({"note": text})
        return
    console(stderr=True).print(Text(line(text), style="dim"), soft_wrap=True)
