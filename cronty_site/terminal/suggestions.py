"""Suggestions for a misspelled word: the nearest of those that exist."""

import difflib
from collections.abc import Iterable

_CLOSE = 0.6


def nearest(text: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, in upper or lower case, or None."""
    words = {word.casefold(): word for word in known}
    wanted = text.strip().casefold()
    if found := difflib.get_close_matches(wanted, words, n=1, cutoff=_CLOSE):
        return words[found[0]]
    # A part of a long name is too short to be close to it.
    containing = [word for folded, word in words.items() if len(wanted) > 2 and wanted in folded]
    return containing[0] if len(containing) == 1 else None


def did_you_mean(text: str, known: Iterable[str], form: str = "{}") -> str:
    """Return a question to append to an error, or an empty text."""
    found = nearest(text, known)
    return f" Did you mean {form.format(found)}?" if found else ""
