"""Masking: replace known secrets in texts, and JSON values whose names sound like a secret, before anybody sees them."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from schedules import limits
from schedules.secrets.references import REFERENCE, escape_for_url

MASK = "••••••"
# Masking a shorter secret, or a shorter line of one, would also mask ordinary words.
SHORTEST_SECRET = 4
_SHORTEST_LINE = 6

_SECRET = re.compile(
    r"authorization|token|secret|password|passphrase|passwd|credential|cookie|api[-_]?key|private[-_]?key|signature"
    r"|(^|[-_])(auth|pwd)($|[-_.])",
    re.IGNORECASE,
)
# Numbers under these names count or limit something, as in max_tokens.
_AMOUNT = re.compile(r"(^|[-_])(max|min|num|number|count|limit|budget|per)($|[-_])", re.IGNORECASE)
_HEADERS = re.compile(r"(^|[-_])headers?(\.[0-9]+)?$", re.IGNORECASE)
# All request headers are masked except these.
_HARMLESS_TEXT = """
    accept accept-language content-language content-type if-match if-modified-since if-none-match if-unmodified-since
    prefer user-agent x-api-version x-event x-event-type x-github-api-version
"""
_HARMLESS = frozenset(_HARMLESS_TEXT.split())
# A reference only names a secret, so "Bearer ${secret:NAME}" is shown.
_SHOWN_REFERENCE = re.compile(rf"([A-Za-z]{{1,20}} )?{REFERENCE.pattern}")


def masked(value: Any) -> Any:
    """Copy a JSON value; mask values under keys that sound like a secret, and headers not known to be harmless."""
    match value:
        case dict() if any(str(key).lower().startswith("x-") for key in value):
            # Headers passed as a positional argument, so no key says what they are.
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
    """Return whether a value is harmless although its name sounds like a secret: True, or a number of something."""
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
    """Replaces secrets in text, including their single lines and their JSON- and URL-escaped forms."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        # The longest first, because one may contain another.
        self._forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if self._forms else None
        self.longest = len(self._forms[0]) if self._forms else 0

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def positions(self, text: str, positions: Sequence[int]) -> list[int]:
        """Convert positions in a text, in ascending order, to positions in the masked text."""
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
        """Copy a text or a JSON value with its secrets masked."""
        return limits.map_texts(value, self.mask, with_names=True)

    def split(self, text: str) -> tuple[str, str]:
        """Split off the end of a text that may be the beginning of a secret; return the masked rest, and that end."""
        end = len(text) - max((_overlap(text, form) for form in self._forms), default=0)
        for secret in self._pattern.finditer(text) if self._pattern else ():
            if secret.start() < end < secret.end():
                end = secret.start()
        return self.mask(text[:end]), text[end:]


def _overlap(text: str, form: str) -> int:
    """Return how many characters at the end of a text are an incomplete beginning of this form."""
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
        yield escape_for_url(text)
        for is_ascii in (True, False):
            escaped = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
            # Some JSON libraries also escape the slash.
            yield from (escaped, escaped.replace("/", r"\/"))
        yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= _SHORTEST_LINE)


def visible(secret: str) -> str:
    """Return a secret as it looks in cleaned output, without surrounding spaces."""
    return limits.clean_output(secret).strip()


def has_mask(value: Any) -> bool:
    """Return whether any text in a JSON value contains a mask."""
    return any(MASK in text for text in limits.texts_in(value))
