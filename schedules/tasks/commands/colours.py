"""Terminal colours of an output, stored beside its text as pairs of a position and the codes of the escape sequence."""

import re
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

from schedules import limits

# A position, and the codes between "ESC[" and "m", such as "1;31"; an empty text or "0" resets all colours.
Colour: TypeAlias = tuple[int, str]

_SEQUENCE = re.compile(r"\x1b\[([0-9;]{0,20})m")
# How many colours are kept of the beginning and of the end of an output.
MAX_HEAD, MAX_TAIL = 500, 1500


def colours_in(raw: str) -> list[Colour]:
    """Find the colours in raw output; their positions are those in the cleaned text."""
    if "\x1b[" not in raw:
        return []
    colours = []
    position = end = 0
    for match in _SEQUENCE.finditer(raw):
        position += len(limits.clean_output(raw[end : match.start()]))
        end = match.end()
        colours.append((position, match[1]))
    return colours


def shift(colours: Iterable[Colour], by: int) -> list[Colour]:
    return [(max(0, position + by), codes) for position, codes in colours]


class KeptColours:
    """The colours of the beginning and the end of an output."""

    def __init__(self) -> None:
        self._head: list[Colour] = []
        self._tail: deque[Colour] = deque(maxlen=MAX_TAIL)

    def add(self, colours: Iterable[Colour]) -> None:
        rest = iter(colours)
        self._head += islice(rest, MAX_HEAD - len(self._head))
        self._tail.extend(rest)

    @property
    def all(self) -> tuple[Colour, ...]:
        return (*self._head, *self._tail)
