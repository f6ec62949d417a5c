"""References to secrets, like ${secret:NAME}: where they stand in a text or a JSON value, and how they are replaced."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
NAME = re.compile(NAME_PATTERN)
REFERENCE = re.compile(rf"\$\{{secret:({NAME_PATTERN})\}}")
_BEGINNING = "${secret:"


def names_in(value: Any) -> set[str]:
    """Return the secrets that a text or a JSON value refers to."""
    return {name for text in _texts(value) for name in REFERENCE.findall(text)}


def problem_in(value: Any) -> str | None:
    """Return what is wrong with the references in a JSON value, or None."""
    for text in _texts(value):
        if text.count(_BEGINNING) != len(REFERENCE.findall(text)):
            return "Write a secret as ${secret:NAME}: a letter first, then letters, digits and _."
    return None


def resolved(value: Any, secrets: Mapping[str, str], escape: Callable[[str], str] = str) -> Any:
    """Copy a text or a JSON value with secrets in place of their references, in one pass: secrets are not searched."""
    match value:
        case str():
            return REFERENCE.sub(lambda reference: escape(secrets[reference[1]]), value)
        case list():
            return [resolved(item, secrets, escape) for item in value]
        case dict():
            return {key: resolved(item, secrets, escape) for key, item in value.items()}
        case _:
            return value


def in_address(secret: str) -> str:
    """Escape a secret for a path or a query, where it must not begin another part."""
    return quote(secret, safe=":-._~")


def without_references(text: str) -> str:
    """Replace references by a harmless word, to check the text around them."""
    return REFERENCE.sub("secret", text)


def places_in(text: str) -> set[int]:
    """Return where the references of a text begin."""
    return {reference.start() for reference in REFERENCE.finditer(text)}


def broken(text: str, kept: Collection[int] = ()) -> str:
    """Break what begins like a reference, except at the places that are kept, so that no secret is filled in."""
    return re.sub(
        re.escape(_BEGINNING),
        lambda begun: begun[0] if begun.start() in kept else f"$ {begun[0][1:]}",
        text,
    )


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
