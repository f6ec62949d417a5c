"""The output of a run: read it whole, or from a position on while it is printed."""

from collections.abc import Iterator
from typing import NamedTuple

from schedules.models import Execution, RunOutput


class OutputPart(NamedTuple):
    """New output of a run; pass its position and attempt to read on."""

    text: str
    position: int
    attempt: int
    is_ended: bool
    """Whether no more output will follow."""
    colours: tuple[tuple[int, str], ...] = ()
    """Where colors begin in this text, with their terminal escape codes; only for a whole output."""


def output_since(execution: Execution, position: int = 0, attempt: int = 0) -> OutputPart:
    """Return what a run printed after this position of this attempt; a newer attempt starts over.

    Only the beginning and the end of a long output are stored; a line says how much is left out between them.
    """
    # Check this first: everything printed is stored before the run ends.
    is_ended = not Execution.objects.live().filter(pk=execution.pk).exists()
    row = RunOutput.objects.filter(execution=execution.pk).order_by("-attempt").first()
    if row is None:
        return OutputPart("", 0, attempt, is_ended)
    start = position if row.attempt == attempt else 0
    text = _from(row, start)
    colours = () if start else tuple(_colours_of(row, len(text) - row.position))
    return OutputPart(text, row.position, row.attempt, is_ended, colours)


def _colours_of(row: RunOutput, shift: int) -> Iterator[tuple[int, str]]:
    """Yield the colors in the text of a row, whose tail is shifted by what is left out before it."""
    tail_at = row.position - len(row.tail)
    for position, codes in row.colours:
        yield (position if position <= len(row.head) else max(position, tail_at) + shift), codes


def _from(row: RunOutput, position: int) -> str:
    tail_at = row.position - len(row.tail)
    if position >= tail_at:
        return row.tail[position - tail_at :]
    left_out = tail_at - max(position, len(row.head))
    gap = f"\n… {left_out:,} characters left out …\n" if left_out else ""
    return row.head[position:] + gap + row.tail
