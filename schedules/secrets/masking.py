"""Masking: secrets in texts, and values whose names sound like a secret, are replaced before anybody sees them."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from schedules import limits
from schedules.secrets.references import REFERENCE, in_address

MASK = "••••••"
# A shorter one could not be masked without masking ordinary words.
SHORTEST_SECRET = 4
# Neither could a shorter line of a secret.
_SHORTEST_LINE = 6

_SECRET = re.compile(
    r"authorization|token|secret|password|passphrase|passwd|credential|cookie|api[-_]?key|private[-_]?key|signature"
    r"|(^|[-_])(auth|pwd)($|[-_.])",
    re.IGNORECASE,
)
# Numbers under such a name count or limit something, as in max_tokens.
_AMOUNT = re.compile(r"(^|[-_])(max|min|num|number|count|limit|budget|per)($|[-_])", re.IGNORECASE)
_HEADERS = re.compile(r"(^|[-_])headers?(\.[0-9]+)?$", re.IGNORECASE)
# Of request headers, everything is masked except the values of these.
_HARMLESS_TEXT = """
    accept accept-language content-language content-type if-match if-modified-since if-none-match if-unmodified-since
    prefer user-agent x-api-version x-event x-event-type x-github-api-version
"""
_HARMLESS = frozenset(_HARMLESS_TEXT.split())
# The name of a secret is not a secret: "Bearer ${secret:NAME}" is shown.
_SHOWN_REFERENCE = re.compile(rf"([A-Za-z]{{1,20}} )?{REFERENCE.pattern}")


def masked(value: Any) -> Any:
    """Copy a JSON value; mask everything under a key that looks like a secret, and request headers not known as harmless."""
    match value:
        case dict() if any(str(key).lower().startswith("x-") for key in value):
            # Headers that were given by position, and so have no name.
            return _masked_headers(value)
        case dict():
            return {key: _masked_item(str(key), item) for key, item in value.items()}
        case list():
            return [masked(item) for item in value]
        case _:
            return value


def _masked_item(key: str, item: Any) -> Any:
    if _SECRET.search(key) and item:
        return item if _is_reference(item) or _is_amount(key, item) else MASK
    return _masked_headers(item) if _HEADERS.search(key) else masked(item)


def _is_amount(key: str, item: Any) -> bool:
    """Return whether a value is no secret although its name sounds like one: yes or no, or a number of something."""
    return item is True or (isinstance(item, int | float) and _AMOUNT.search(key) is not None)


def _is_reference(item: Any) -> bool:
    return isinstance(item, str) and _SHOWN_REFERENCE.fullmatch(item) is not None


def _masked_headers(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: item if str(key).lower() in _HARMLESS or not item or _is_reference(item) else MASK
                for key, item in value.items()
            }
        case list():
            return [_masked_headers(item) for item in value]
        case str():
            return MASK if value else value
        case _:
            return value


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
        return self._pattern.sub(MASK, text) if self._pattern else text

    def positions(self, text: str, positions: Sequence[int]) -> list[int]:
        """Return where these positions, in ascending order, are when the secrets of a text are replaced."""
        secrets = self._pattern.finditer(text) if self._pattern else iter(())
        shifted, shift = [], 0
        secret = next(secrets, None)
        for position in positions:
            while secret and secret.end() <= position:
                shift += len(MASK) - len(secret[0])
                secret = next(secrets, None)
            is_inside = secret is not None and secret.start() < position
            shifted.append((secret.start() if secret and is_inside else position) + shift)
        return shifted

    def mask_value(self, value: Any) -> Any:
        """Copy a text or a JSON value without its secrets."""
        match value:
            case str():
                return self.mask(value)
            case list() | tuple():
                return [self.mask_value(item) for item in value]
            case dict():
                return {self.mask_value(key): self.mask_value(item) for key, item in value.items()}
            case _:
                return value

    def split(self, text: str) -> tuple[str, str]:
        """Return a text without its secrets, up to what may be the beginning of one; and that rest, as it is."""
        end = len(text) - max((_count_common(text, form) for form in self._forms), default=0)
        for secret in self._pattern.finditer(text) if self._pattern else ():
            if secret.start() < end < secret.end():
                end = secret.start()
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
    for text in (secret, shown) if len(shown) >= SHORTEST_SECRET else (secret,):
        yield text
        yield quote(text, safe="")
        yield in_address(text)
        for is_ascii in (True, False):
            escaped = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
            # Some libraries also escape the slash.
            yield from (escaped, escaped.replace("/", r"\/"))
        yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= _SHORTEST_LINE)


def visible(secret: str) -> str:
    """Return what is left of a secret in an output, without spaces around it."""
    return limits.clean_output(secret).strip()


def has_mask(value: Any) -> bool:
    """Return whether a mask stands anywhere in a value."""
    match value:
        case str():
            return MASK in value
        case list():
            return any(map(has_mask, value))
        case dict():
            return any(map(has_mask, value.values()))
        case _:
            return False
