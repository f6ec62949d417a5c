"""References to secrets, like ${secret:NAME}: find, check and replace them in texts and JSON values."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from schedules.limits import map_texts, texts_in

NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
NAME = re.compile(NAME_PATTERN)
REFERENCE = re.compile(rf"\$\{{secret:({NAME_PATTERN})\}}")
_PREFIX = "${secret:"


def names_in(value: Any) -> set[str]:
    """Return the names of the secrets that a text or a JSON value refers to."""
    return {name for text in texts_in(value) for name in REFERENCE.findall(text)}


def problem_in(value: Any) -> str | None:
    """Return what is wrong with the references in a JSON value, or None."""
    for text in texts_in(value):
        if text.count(_PREFIX) != len(REFERENCE.findall(text)):
            return "Write a secret as ${secret:NAME}: a letter first, then letters, digits and _."
    return None


def fill_in_secrets(value: Any, secrets: Mapping[str, str], escape: Callable[[str], str] = str) -> Any:
    """Copy a text or a JSON value with references replaced by secrets; a secret that looks like a reference stays."""
    return map_texts(value, lambda text: REFERENCE.sub(lambda reference: escape(secrets[reference[1]]), text))


def escape_for_url(secret: str) -> str:
    """Escape a secret for the path or query of a URL, so that it cannot begin another part."""
    return quote(secret, safe=":-._~")


def without_references(text: str) -> str:
    """Replace references with a harmless word, so that the text around them can be checked."""
    return REFERENCE.sub("secret", text)


def reference_positions(text: str) -> set[int]:
    """Return where the references in a text begin."""
    return {reference.start() for reference in REFERENCE.finditer(text)}


def break_references(text: str, keep: Collection[int] = ()) -> str:
    """Break references so that no secret is filled in, except those at the positions to keep."""
    return re.sub(
        re.escape(_PREFIX),
        lambda prefix: prefix[0] if prefix.start() in keep else f"$ {prefix[0][1:]}",
        text,
    )
