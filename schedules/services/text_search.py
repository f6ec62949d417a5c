"""Text search: match rows that contain every word of a text, ignoring case."""

import functools
import operator
import re

from django.db.models import Q

from schedules import limits
from schedules.models.job_texts import normalized

# Databases limit the number of conditions. Tools and terminal refuse longer texts; search fields accept no more.
MAX_TEXT_LENGTH = limits.NAME_LENGTH


def text_problem(text: str) -> str | None:
    """Return what is wrong with a search text, or None."""
    if len(text) > MAX_TEXT_LENGTH or limits.line_problem(text):
        return f"use at most {MAX_TEXT_LENGTH} printable characters"
    return None


def has_every_word(text: str, *columns: str, normalized_column: str = "") -> Q:
    """Match rows that contain each word of a text in one of these columns, or in a column of normalized text."""
    match = Q()
    # Without repeated words, but in order.
    for word in dict.fromkeys(text[:MAX_TEXT_LENGTH].split()):
        places = [contains(column, word) for column in columns]
        if normalized_column:
            places.insert(0, Q(**{f"{normalized_column}__contains": normalized(word)}))
        match &= functools.reduce(operator.or_, places)
    return match


def contains(column: str, text: str) -> Q:
    """Match rows that contain a text, ignoring case."""
    if text.isascii():
        return Q(**{f"{column}__icontains": text})
    return Q(**{f"{column}__iregex": "".join(map(_in_any_case, text))})


def _in_any_case(letter: str) -> str:
    # SQLite, and PostgreSQL in the C locale, ignore the case of ASCII letters only.
    cases = {letter.lower(), letter.upper()}
    is_cased = not letter.isascii() and len(cases) == 2 and all(len(case) == 1 for case in cases)
    return f"[{''.join(sorted(cases))}]" if is_cased else re.escape(letter)
