"""The output of a program: decode and clean it, mask its secrets, and keep its beginning, its end and its colours."""

import codecs
import re
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TypeAlias

from schedules import limits
from schedules.secrets.masking import Masker
from schedules.tasks.interface import OutputText
from schedules.tasks.processes.running import STANDARD_ERROR, STANDARD_OUTPUT

# The beginning gets this fraction of the characters that are kept.
_HEAD_DIVISOR = 4
LONGEST_ERROR = 1000
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


class _Stream:
    """Converts the bytes of one stream to clean text with masked secrets."""

    def __init__(self, masker: Masker) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masker = masker
        self._unfinished = self._held = ""
        self._colours: list[Colour] = []
        self._to_drop = 0

    def read(self, data: bytes, *, is_last: bool = False) -> tuple[str, list[Colour]]:
        """Return the new clean text and its colours; hold back what may be the beginning of a secret."""
        raw = self._unfinished + self._decoder.decode(data, is_last)
        end = len(raw) - (0 if is_last else limits.count_unfinished(raw))
        self._unfinished = raw[end:]
        # Clean it first: a colour in the middle of a secret would hide it from the masker.
        new = limits.clean_output(raw[:end])
        dropped = min(self._to_drop, len(new))
        self._to_drop -= dropped
        self._colours += shift(colours_in(raw[:end]), len(self._held) - dropped)
        text = self._held + new[dropped:]
        masked, self._held = (self._masker.mask(text), "") if is_last else self._masker.split(text)
        return masked, self._colours_of(text[: len(text) - len(self._held)])

    def _colours_of(self, text: str) -> list[Colour]:
        """Remove and return the colours of this text, at their positions in the masked text."""
        if not self._colours:
            return []
        colours = [colour for colour in self._colours if colour[0] <= len(text)]
        self._colours = shift(self._colours[len(colours) :], -len(text))
        positions = self._masker.positions(text, [position for position, _ in colours])
        return [(position, codes) for position, (_, codes) in zip(positions, colours, strict=True)]

    def skip(self) -> None:
        """Start again after a gap; drop what may be parts of a secret on both sides of it."""
        self._decoder.reset()
        self._unfinished = self._held = ""
        self._colours = []
        self._to_drop = max(0, self._masker.longest - 1)


class KeptOutput:
    """Collects the output of a program, and keeps its beginning and its end within a number of characters."""

    def __init__(self, characters: int, secrets: Collection[str] = ()) -> None:
        self._max_head = characters // _HEAD_DIVISOR
        self._max_tail = characters - self._max_head
        masker = Masker(secrets)
        self._streams = {number: _Stream(masker) for number in (STANDARD_OUTPUT, STANDARD_ERROR)}
        self._head = self._tail = self._errors = ""
        self._position = 0
        self._colours = KeptColours()
        self.is_changed = False

    def add(self, stream: int, data: bytes) -> None:
        self._append(stream, *self._streams[stream].read(data))

    def skip(self, stream: int, count: int) -> None:
        """Note that so many bytes of this stream were dropped."""
        self._streams[stream].skip()
        self._max_head = min(self._max_head, len(self._head))
        self._tail = ""
        self._position += count
        self.is_changed = True

    def finish(self) -> None:
        """Add the text that the streams held back."""
        for number, stream in self._streams.items():
            self._append(number, *stream.read(b"", is_last=True))

    @property
    def text(self) -> OutputText:
        return OutputText(self._head, self._tail, self._position, self._colours.all)

    @property
    def last_lines(self) -> str:
        """The end of the error output, or of the output if there was none."""
        return (self._errors.strip() or self._tail.strip() or self._head.strip())[-LONGEST_ERROR:]

    def last(self, characters: int) -> str:
        whole = self._head + self._tail if self._position == len(self._head) + len(self._tail) else self._tail
        return whole[-characters:]

    def _append(self, stream: int, text: str, colours: list[Colour]) -> None:
        self._colours.add(shift(colours, self._position))
        if not text:
            return
        if stream != STANDARD_OUTPUT:
            self._errors = (self._errors + text)[-LONGEST_ERROR:]
        room = max(0, self._max_head - len(self._head)) if not self._tail else 0
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._max_tail :]
        self._position += len(text)
        self.is_changed = True
