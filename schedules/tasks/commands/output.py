"""The output of a command: decoded, cleaned, without secrets, and cut to its beginning and its end."""

import codecs
import json
import re
from collections.abc import Collection, Iterable
from urllib.parse import quote

from schedules import limits
from schedules.tasks.interface import OutputText

# Sequences that move the cursor, set colours or name the window.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# The beginning of such a sequence, or of a line break, at the end of a piece.
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?)\Z")
_LONGEST_SEQUENCE = 300
_HEAD_SHARE = 4
# Shorter pieces of a secret would mask ordinary words.
_SHORTEST_LINE = 6
LONGEST_ERROR = 1000


class Masker:
    """Replaces secrets, also their lines and their forms in JSON and in an address, in text that comes in pieces."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first, because one may contain another.
        ordered = sorted(forms, key=len, reverse=True)
        self._forms = ordered
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self.longest = len(ordered[0]) if ordered else 0

    def mask(self, text: str) -> str:
        return self._pattern.sub(limits.MASK, text) if self._pattern else text

    def split(self, text: str) -> tuple[str, str]:
        """Return a text without its secrets, up to what may be the beginning of one; and that rest, as it is."""
        end = len(text) - max((_count_common(text, form) for form in self._forms), default=0)
        for found in self._pattern.finditer(text) if self._pattern else ():
            if found.start() < end < found.end():
                end = found.start()
        return self.mask(text[:end]), text[end:]


def _count_common(text: str, form: str) -> int:
    """Return how many characters at the end of a text are the beginning of a form, which is longer than that."""
    start = text.find(form[0], max(0, len(text) - len(form) + 1))
    while start >= 0:
        if form.startswith(text[start:]):
            return len(text) - start
        start = text.find(form[0], start + 1)
    return 0


def _forms(secret: str) -> Iterable[str]:
    shown = visible(secret)
    for text in (secret, shown) if len(shown) >= limits.SHORTEST_SECRET else (secret,):
        yield text
        yield quote(text, safe="")
        yield quote(text, safe=":-._~")
        for is_ascii in (True, False):
            escaped = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
            # Some libraries also escape the slash.
            yield from (escaped, escaped.replace("/", r"\/"))
        yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= _SHORTEST_LINE)


def visible(secret: str) -> str:
    """Return what is left of a secret in an output, without spaces around it."""
    return clean(secret).strip()


class _Stream:
    """One stream: bytes come in, and whole characters without secrets come out."""

    def __init__(self, masker: Masker) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masker = masker
        self._unfinished = self._held = ""
        self._to_drop = 0

    def read(self, data: bytes, *, is_last: bool = False) -> str:
        raw = self._unfinished + self._decoder.decode(data, is_last)
        end = len(raw) - (0 if is_last else _count_unfinished(raw))
        self._unfinished = raw[end:]
        # Clean it first: a colour within a secret would hide it from the mask.
        new = clean(raw[:end])
        dropped = min(self._to_drop, len(new))
        self._to_drop -= dropped
        text = self._held + new[dropped:]
        if is_last:
            return self._masker.mask(text)
        masked, self._held = self._masker.split(text)
        return masked

    def skip(self) -> None:
        """Begin again after a gap, without the parts of a secret on both sides of it."""
        self._decoder.reset()
        self._unfinished = self._held = ""
        self._to_drop = max(0, self._masker.longest - 1)


def _count_unfinished(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of what `clean` replaces."""
    match = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_SEQUENCE))
    return len(match[0]) if match else 0


def clean(text: str) -> str:
    """Remove colours and other sequences for terminals, and what cannot be printed."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return limits.strip_unprintable(plain)


class KeptOutput:
    """Takes what a program prints, and keeps the beginning and the end within a number of characters."""

    def __init__(self, characters: int, secrets: Collection[str] = ()) -> None:
        self._most_head = characters // _HEAD_SHARE
        self._most_tail = characters - self._most_head
        masker = Masker(secrets)
        self._streams = {number: _Stream(masker) for number in (1, 2)}
        self._head = self._tail = self._errors = ""
        self._position = 0
        self.is_changed = False

    def add(self, stream: int, data: bytes) -> None:
        self._append(stream, self._streams[stream].read(data))

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
            self._append(number, stream.read(b"", is_last=True))

    @property
    def text(self) -> OutputText:
        return OutputText(self._head, self._tail, self._position)

    @property
    def last_lines(self) -> str:
        """The end of the error output, or of the output if there was none."""
        return (self._errors.strip() or self._tail.strip() or self._head.strip())[-LONGEST_ERROR:]

    def last(self, characters: int) -> str:
        whole = self._head + self._tail if self._position == len(self._head) + len(self._tail) else self._tail
        return whole[-characters:]

    def _append(self, stream: int, text: str) -> None:
        if not text:
            return
        if stream != 1:
            self._errors = (self._errors + text)[-LONGEST_ERROR:]
        room = max(0, self._most_head - len(self._head)) if not self._tail else 0
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._most_tail :]
        self._position += len(text)
        self.is_changed = True
