"""Refusals of phrases that cannot be parsed: they propose corrected spelling, and never another time."""

import difflib
import re
from collections.abc import Callable
from datetime import datetime

from schedules.when.grammar import PhraseError, is_number
from schedules.when.triggers import Once

_TEXT = """
    a after afternoon ago an and at day days each end evening every first fifth fourth from half hour hourly hours in
    last midnight minute minutes month monthly months morning next night noon now of on other past quarter second seconds
    the third this to today tomorrow tonight until week weekday weekdays weekend weekends weekly weeks year yearly
    yesterday daily monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
    saturdays sundays january february march april may june july august september october november december am pm
    sun mon tue wed thu fri sat jan feb mar apr jun jul aug sep oct nov dec h m s d w min mins hr hrs sec secs st nd rd th
    for except but not starting beginning through till between before by again is it was when after week
"""
_WORDS = tuple(_TEXT.split())
# Cronty does not know where the person is, and the sun rises at another time every day.
_SUN = re.compile(r"\b(?:sunset|sunrise|sundown|dawn|dusk|twilight)\b")
_COUNTED_UNIT = re.compile(r"\b(\d+) (second|minute|hour|day|week|month|year)s?\b")
# Clock times and dates as other languages write them.
_FRENCH_CLOCK = re.compile(r"\b(\d{1,2}) ?h ?(\d\d)?\b")
_YEAR_FIRST = re.compile(r"\b(\d{4})/(\d{1,2})/(\d{1,2})\b")
_REPEATS = re.compile(r"\b(?:every|each|daily|hourly|weekly|monthly|yearly|(?:\w+day|weekend)s)\b")
_CLOSE_WORD = 0.8
MOMENT_FORM = "Write a date and time as YYYY-MM-DD HH:MM"
_REPEAT_FORM = "Write it in other words, or as cron"


def not_understood(what: str, phrase: str, read: Callable[[str], object]) -> str:
    """Return the error for a phrase that is not understood, with corrected spelling if that is understood."""
    if sun := _SUN.search(phrase):
        return f"clock times only: look up the time of {sun[0]}, and write it as HH:MM"
    corrected = re.sub(r"[a-z]{3,}", lambda match: _corrected(match[0]), phrase)
    corrected = _COUNTED_UNIT.sub(
        lambda match: f"{match[1]} {match[2]}{'s' if match[1] != '1' else ''}", corrected
    )
    corrected = _FRENCH_CLOCK.sub(lambda match: f"{match[1]}:{match[2] or '00'}", corrected)
    corrected = _YEAR_FIRST.sub(lambda match: f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}", corrected)
    repeats = bool(_REPEATS.search(corrected))
    if corrected != phrase and _is_understood(corrected, read, may_repeat=repeats):
        return f'couldn\'t read that {what}. Did you mean "{corrected}"?'
    unknown = [word for word in re.findall(r"[a-z]+", phrase) if not (word in _WORDS or is_number(word))]
    why = f': "{unknown[0][:40]}" is not known' if unknown else ""
    return f"couldn't read that {what}{why}. {_REPEAT_FORM if repeats else MOMENT_FORM}"


def _is_understood(phrase: str, read: Callable[[str], object], *, may_repeat: bool) -> bool:
    try:
        meaning = read(phrase)
    except PhraseError:
        return False
    return may_repeat or isinstance(meaning, Once | datetime)


def _corrected(word: str) -> str:
    """Return the known word that this one is a misspelling of; other words, like "bimonthly", stay."""
    if word in _WORDS:
        return word
    close = difflib.get_close_matches(word, _WORDS, n=1, cutoff=_CLOSE_WORD)
    return close[0] if close and close[0][0] == word[0] else word
