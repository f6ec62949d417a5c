"""The output of a run, whole or from a position on, for those who follow it while it is printed."""

from collections.abc import Iterator
from typing import NamedTuple

from schedules.models import Execution, RunOutput


class OutputPart(NamedTuple):
    """What is new in the output of a run; ask again with its position and attempt."""

    text: str
    position: int
    attempt: int
    is_ended: bool
    """Whether nothing will follow."""
    colours: tuple[tuple[int, str], ...] = ()
    """Where colours begin in this text, with the codes of the sequence for terminals; only of a whole output."""


def output_since(execution: Execution, position: int = 0, attempt: int = 0) -> OutputPart:
    """Return what a run has printed from this position of this attempt on; a newer attempt begins again.

    Of a long output only the beginning and the end are kept; a line says how much is left out between them.
    """
    # Read first: what is printed until then is stored before the run ends.
    is_ended = not Execution.objects.live().filter(pk=execution.pk).exists()
    row = RunOutput.objects.filter(execution=execution.pk).order_by("-attempt").first()
    if row is None:
        return OutputPart("", 0, attempt, is_ended)
    start = position if row.attempt == attempt else 0
    text = _from(row, start)
    colours = () if start else tuple(_colours_of(row, len(text) - row.position))
    return OutputPart(text, row.position, row.attempt, is_ended, colours)


def _colours_of(row: RunOutput, shift: int) -> Iterator[tuple[int, str]]:
    """Yield the colours in the text of a row, whose tail is shifted because something is left out before it."""
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
