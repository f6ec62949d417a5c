"""The colours of an output, kept beside its text: where each begins, as a position and the codes of its sequence."""

import re
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

from schedules import limits

# The codes are what stands between "ESC[" and "m", such as "1;31"; nothing or "0" ends all of them.
Colour: TypeAlias = tuple[int, str]

_SEQUENCE = re.compile(r"\x1b\[([0-9;]{0,20})m")
# The most that are kept of the beginning and of the end of an output.
MOST_HEAD, MOST_TAIL = 500, 1500


def colours_in(raw: str) -> list[Colour]:
    """Find the colours in an output as it was printed; positions are those in the clean text."""
    if "\x1b[" not in raw:
        return []
    changes = []
    position = at = 0
    for match in _SEQUENCE.finditer(raw):
        position += len(limits.clean_output(raw[at : match.start()]))
        at = match.end()
        changes.append((position, match[1]))
    return changes


def moved(colours: Iterable[Colour], by: int) -> list[Colour]:
    return [(max(0, position + by), codes) for position, codes in colours]


class KeptColours:
    """The colours of the beginning and the end of an output."""

    def __init__(self) -> None:
        self._head: list[Colour] = []
        self._tail: deque[Colour] = deque(maxlen=MOST_TAIL)

    def add(self, colours: Iterable[Colour]) -> None:
        rest = iter(colours)
        self._head += islice(rest, MOST_HEAD - len(self._head))
        self._tail.extend(rest)

    @property
    def all(self) -> tuple[Colour, ...]:
        return (*self._head, *self._tail)
