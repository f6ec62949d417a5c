"""The output of a command: decoded, cleaned, without secrets, and cut to its beginning and its end."""

import codecs
from collections.abc import Collection

from schedules import limits
from schedules.secrets.masking import Masker
from schedules.tasks.commands.colours import Colour, KeptColours, colours_in, moved
from schedules.tasks.interface import OutputText

_HEAD_SHARE = 4
LONGEST_ERROR = 1000


class _Stream:
    """One stream: bytes come in, and whole characters without secrets come out."""

    def __init__(self, masker: Masker) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masker = masker
        self._unfinished = self._held = ""
        self._colours: list[Colour] = []
        self._to_drop = 0

    def read(self, data: bytes, *, is_last: bool = False) -> tuple[str, list[Colour]]:
        """Return what is new and clean, and its colours."""
        raw = self._unfinished + self._decoder.decode(data, is_last)
        end = len(raw) - (0 if is_last else limits.count_unfinished(raw))
        self._unfinished = raw[end:]
        # Clean it first: a colour within a secret would hide it from the mask.
        new = limits.clean_output(raw[:end])
        dropped = min(self._to_drop, len(new))
        self._to_drop -= dropped
        self._colours += moved(colours_in(raw[:end]), len(self._held) - dropped)
        text = self._held + new[dropped:]
        masked, self._held = (self._masker.mask(text), "") if is_last else self._masker.split(text)
        return masked, self._colours_of(text[: len(text) - len(self._held)])

    def _colours_of(self, text: str) -> list[Colour]:
        """Take the colours of this text, at their positions in the masked one; the others are of what is held."""
        if not self._colours:
            return []
        taken = [colour for colour in self._colours if colour[0] <= len(text)]
        self._colours = moved(self._colours[len(taken) :], -len(text))
        positions = self._masker.positions(text, [position for position, _ in taken])
        return [(position, codes) for position, (_, codes) in zip(positions, taken, strict=True)]

    def skip(self) -> None:
        """Begin again after a gap, without the parts of a secret on both sides of it."""
        self._decoder.reset()
        self._unfinished = self._held = ""
        self._colours = []
        self._to_drop = max(0, self._masker.longest - 1)


class KeptOutput:
    """Takes what a program prints, and keeps the beginning and the end within a number of characters."""

    def __init__(self, characters: int, secrets: Collection[str] = ()) -> None:
        self._most_head = characters // _HEAD_SHARE
        self._most_tail = characters - self._most_head
        masker = Masker(secrets)
        self._streams = {number: _Stream(masker) for number in (1, 2)}
        self._head = self._tail = self._errors = ""
        self._position = 0
        self._colours = KeptColours()
        self.is_changed = False

    def add(self, stream: int, data: bytes) -> None:
        self._append(stream, *self._streams[stream].read(data))

    def skip(self, stream: int, count: int) -> None:
        """Note that something of this stream was left out."""
        self._streams[stream].skip()
        if len(self._head) < self._most_head:
            self._most_head = len(self._head)
        self._tail = ""
        self._position += count
        self.is_changed = True

    def finish(self) -> None:
        """Add what was held back."""
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
        self._colours.add(moved(colours, self._position))
        if not text:
            return
        if stream != 1:
            self._errors = (self._errors + text)[-LONGEST_ERROR:]
        room = max(0, self._most_head - len(self._head)) if not self._tail else 0
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._most_tail :]
        self._position += len(text)
        self.is_changed = True
