"""Limits of stored values: length, depth, duration and allowed characters."""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import MINYEAR, UTC, datetime, timedelta
from typing import Any

NAME_LENGTH = 200
ACTOR_LENGTH = 150
CRON_LENGTH = 100
JSON_DEPTH = 10
MAX_TAGS = 20
SHORTENED = "… (shortened)"
TAG_LENGTH = 50
PING_KEY_LENGTH = 64
# The limit for the body of a request to a trigger address.
TRIGGER_BODY_BYTES = 256 * 1024
# The limit for the body of a ping; only the beginning of a longer one is kept.
PING_BODY_BYTES = 100_000
SHORTEST_TIMEOUT = timedelta(seconds=1)
LONGEST_TIMEOUT = timedelta(days=1)
TOPIC_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
# Precedes the name of a channel where a text may name a topic or a channel.
CHANNEL_PREFIX = "channel:"
# Letters of any script, but nothing that is a separator in a list of names or in the column `alerts`.
CHANNEL_NAME = re.compile(r"[^\W_][\w -]{0,39}")
# ntfy serves its own pages under these names.
_RESERVED_TOPICS = {
    "account",
    "app",
    "docs",
    "file",
    "login",
    "metrics",
    "settings",
    "signup",
    "static",
    "v1",
}

# Characters that reorder the text around them, so that one name can look like another.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTROL = {"Cc", "Cs", "Zl", "Zp"}
_SURROGATES = re.compile("[\ud800-\udfff]")
_EMOJI_JOINER = "\u200d"
_JOINERS = frozenset("\u200c\u200d")
_EMOJI_STYLES = frozenset("\ufe0e\ufe0f")
_MONGOLIAN_SELECTORS = frozenset("\u180b\u180c\u180d\u180f")
# Characters that are invisible despite their Unicode category: fillers, variation selectors, plane 14.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)

_BETWEEN_BREAKS = re.compile(r"[^\n\t]+")

# Terminal sequences that move the cursor, set colors or name the window.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# The beginning of such a sequence, or of a line break, at the end of a chunk of output.
_UNFINISHED = re.compile(r"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?)\Z")
_LONGEST_SEQUENCE = 300


def line_problem(text: str) -> str | None:
    """Return what is wrong with a one-line text, or None."""
    if problem := hidden_problem(text):
        return problem
    for character in text:
        if unicodedata.category(character) in _CONTROL:
            return f"Remove the control character U+{ord(character):04X}."
    return None


def hidden_problem(text: str) -> str | None:
    """Return which invisible character a text must not contain, or None."""
    if text.isascii():
        return None
    for index, character in enumerate(text):
        if character in _REORDERING:
            return f"Remove the invisible character U+{ord(character):04X}: it reorders text."
        if _is_hidden(character, text[index - 1 : index], text[index + 1 : index + 2]):
            return f"Remove the invisible character U+{ord(character):04X}."
    return None


def _is_hidden(character: str, before: str, after: str) -> bool:
    """Return whether a character is invisible and no script or emoji needs it between its neighbors."""
    if character in _EMOJI_STYLES:
        return not _is_symbol(before)
    if character in _MONGOLIAN_SELECTORS:
        return not "\u1820" <= before <= "\u18aa"
    if character in _JOINERS and _is_letter(before) and _is_letter(after):
        return False
    if character == _EMOJI_JOINER and (before in _EMOJI_STYLES or _is_symbol(before)) and _is_symbol(after):
        return False
    return unicodedata.category(character) == "Cf" or bool(_BLANK.match(character))


def _is_letter(character: str) -> bool:
    # Marks are signs above and below a letter.
    return bool(character) and unicodedata.category(character)[0] in "LM" and not _BLANK.match(character)


def _is_symbol(character: str) -> bool:
    """Return whether a character can be an emoji or a part of one: ❤, 👩, a skin tone, the 1 of 1️⃣."""
    if not character or _BLANK.match(character):
        return False
    return unicodedata.category(character) in {"So", "Sm", "Sk", "Po", "Pd", "Nd"} or character == "\u2139"


_CHARACTER_NAMES = {" ": "spaces", "\n": "line breaks", "\r": "line breaks", "\t": "tabs"}


def topic_problem(text: str) -> str | None:
    """Return why a text cannot be an ntfy topic, or None."""
    if not text:
        return "Enter a topic."
    if invalid := sorted(set(re.sub(r"[-_A-Za-z0-9]", "", text))):
        names = [_CHARACTER_NAMES.get(character, f'"{character}"') for character in invalid[:3]]
        return f"Topics can't contain {' or '.join(names)}."
    if not re.fullmatch(TOPIC_PATTERN, text):
        return "Topics can't be longer than 64 characters."
    return "ntfy reserves this name. Choose another." if text in _RESERVED_TOPICS else None


def channel_in(place: str) -> str:
    """Return the name of the channel in a text like `channel:NAME`, or an empty text for a topic."""
    return place.removeprefix(CHANNEL_PREFIX).strip() if place.startswith(CHANNEL_PREFIX) else ""


def clean_output(text: str) -> str:
    """Remove terminal sequences such as colors, and characters that cannot be printed."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return strip_unprintable(plain)


def count_unfinished(text: str) -> int:
    """Return how many characters at the end of a text may begin a sequence that `clean_output` replaces."""
    match = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_SEQUENCE))
    return len(match[0]) if match else 0


def strip_unprintable(text: str) -> str:
    """Remove control, reordering and other invisible characters, except line breaks and tabs."""
    return _BETWEEN_BREAKS.sub(lambda part: _strip_part(part[0]), text)


def _strip_part(part: str) -> str:
    # Most text needs no change; checking each character of a long output would take seconds.
    if part.isprintable() and (part.isascii() or not _BLANK.search(part)):
        return part
    visible: list[str] = []
    for index, character in enumerate(part):
        # The neighbor is the last visible character: a joiner must not stay after the one that it needs was removed.
        before, after = visible[-1] if visible else "", part[index + 1 : index + 2]
        is_control = character in _REORDERING or unicodedata.category(character) in _CONTROL
        if not (is_control or _is_hidden(character, before, after)):
            visible.append(character)
    return "".join(visible)


def with_codes(text: str) -> str:
    """Write control, reordering and other invisible characters as codes like <U+202E>; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    written: list[str] = []
    for index, character in enumerate(text):
        is_plain = character in "\n\t" or character.isprintable()
        is_visible = (
            is_plain
            and not _BLANK.match(character)
            and not _is_hidden(character, text[index - 1 : index], text[index + 1 : index + 2])
        )
        written.append(character if is_visible else f"<U+{ord(character):04X}>")
    return "".join(written)


def shortened(text: str, max_bytes: int, *, is_cut: bool = False) -> str:
    """Cut a text to `max_bytes` and mark it as shortened, even if only an earlier step has cut it (`is_cut`)."""
    data = text.encode()
    if len(data) <= max_bytes and not is_cut:
        return text
    return data[: max_bytes - len(SHORTENED.encode())].decode(errors="ignore") + SHORTENED


def moment_problem(moment: datetime) -> str | None:
    """Return why a moment cannot be stored, or None."""
    if moment.utcoffset() is None:
        return "Give a date and time with its zone: 2026-12-24T18:00+01:00."
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return f"That date is too far in the {'past' if moment.year == MINYEAR else 'future'}."
    return None


def json_problem(value: Any, *, max_bytes: int) -> str | None:
    """Return why a value cannot be stored as JSON, or None."""
    problem = _structure_problem(value, depth=1)
    if problem:
        return problem
    size = len(json.dumps(value, ensure_ascii=False).encode())
    return f"Too large: {size:,} bytes of JSON; at most {max_bytes:,} are kept." if size > max_bytes else None


def _structure_problem(value: Any, *, depth: int) -> str | None:
    match value:
        case None | bool():
            return None
        case int():
            return None if abs(value) < 2**63 else "Whole numbers must fit into 64 bits."
        case float():
            return None if math.isfinite(value) else "Numbers must be finite: NaN and infinity are not JSON."
        case str():
            return _text_problem(value)
        case list() | tuple() | dict() if depth > JSON_DEPTH:
            return f"Nested too deeply: at most {JSON_DEPTH} levels."
        case list() | tuple():
            children: list[Any] = list(value)
        case dict():
            if not all(isinstance(key, str) for key in value):
                return "Every key must be a string."
            children = [*value.keys(), *value.values()]
        case _:
            return f"{type(value).__name__} is not a JSON value."
    return next(filter(None, (_structure_problem(child, depth=depth + 1) for child in children)), None)


def _text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "Remove the NUL character (U+0000)."
    if _SURROGATES.search(text):
        return "Remove the broken half of a surrogate pair: the text is not valid Unicode."
    return None


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value, without names."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for item in value.values():
                yield from texts_in(item)


def map_texts(value: Any, change: Callable[[str], Any], *, with_names: bool = False) -> Any:
    """Copy a JSON value with its texts changed, and the names in its objects too if asked for."""
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [map_texts(item, change, with_names=with_names) for item in value]
        case dict():
            return {
                change(name) if with_names and isinstance(name, str) else name: map_texts(
                    item, change, with_names=with_names
                )
                for name, item in value.items()
            }
        case _:
            return value
