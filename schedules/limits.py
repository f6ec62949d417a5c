"""Limits of stored values: length, depth and allowed characters."""

import json
import math
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

NAME_LENGTH = 200
ACTOR_LENGTH = 150
CRON_LENGTH = 100
JSON_DEPTH = 10
TAGS = 20
SHORTENED = "… (shortened)"
TAG_LENGTH = 50
TOPIC_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"

# Characters that reorder the text around them, so that one name can look like another.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CONTROL = {"Cc", "Cs", "Zl", "Zp"}


def line_problem(text: str) -> str | None:
    """Return what is wrong with a one-line text, or None."""
    for character in text:
        if character in _REORDERING:
            return f"Remove the invisible character U+{ord(character):04X}: it reorders text."
        if unicodedata.category(character) in _CONTROL:
            return f"Remove the control character U+{ord(character):04X}."
    return None


def topic_problem(text: str) -> str | None:
    """Return why a text cannot be an ntfy topic, or None."""
    return None if re.fullmatch(TOPIC_PATTERN, text) else "Use 1 to 64 letters, digits, - and _."


def strip_unprintable(text: str) -> str:
    """Remove control and reordering characters, except line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(
        character
        for character in text
        if character in "\n\t"
        or (character not in _REORDERING and unicodedata.category(character) not in _CONTROL)
    )


def shortened(text: str, max_bytes: int) -> str:
    """Cut a text to a number of bytes, and mark it as shortened."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    return data[: max_bytes - len(SHORTENED.encode())].decode(errors="ignore") + SHORTENED


def moment_problem(moment: datetime) -> str | None:
    """Return why a moment cannot be stored, or None."""
    if moment.utcoffset() is None:
        return "Give a date and time with its zone: 2026-12-24T18:00+01:00."
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return "This moment lies beyond the calendar's end."
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
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "Remove the broken half of a surrogate pair: the text is not valid Unicode."
    return None


_SECRET = re.compile(r"authorization|token|secret|password|api[-_]?key|signature", re.IGNORECASE)
MASK = "••••••"


def masked(value: Any) -> Any:
    """Copy a JSON value and mask everything under a key that looks like a secret."""
    match value:
        case dict():
            return {
                key: MASK if _SECRET.search(str(key)) and item else masked(item)
                for key, item in value.items()
            }
        case list():
            return [masked(item) for item in value]
        case _:
            return value
