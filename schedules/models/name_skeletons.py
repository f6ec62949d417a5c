"""Skeletons of names, by which jobs are found: what a name looks like."""

# ruff: noqa: RUF001

import re
import unicodedata

from schedules import limits

# Small letters, because capital ones look alike too and are compared as small ones.
_ALIKE = {
    "a": "аαɑ",
    "b": "вβь",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еєεҽ",
    "g": "ɡց",
    "h": "нһηհ",
    "j": "јϳ",
    "k": "кκ",
    "l": "1i|ıіιӏ",
    "m": "мμ",
    "n": "νոп",
    "o": "0оοօ",
    "p": "рρ",
    "q": "ԛգ",
    "s": "ѕ",
    "t": "тτ",
    "u": "սυ",
    "w": "ԝω",
    "x": "хχ",
    "y": "уүγ",
    "z": "ζ",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc`´",
}
# The joiners and selectors that a name may contain.
_INVISIBLE = re.compile("[\u200c\u200d\ufe0e\ufe0f\u180b-\u180f]")
_LETTERS = str.maketrans({other: letter for letter, others in _ALIKE.items() for other in others})


def skeleton(name: str) -> str:
    """Reduce a name to what it looks like: names with equal skeletons are easily taken for each other."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", limits.strip_unprintable(name)))
    words = " ".join(visible.casefold().translate(_LETTERS).split())
    return words.replace("rn", "m").replace("vv", "w")[: limits.NAME_LENGTH]
