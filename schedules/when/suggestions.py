"""Suggestions for phrases that cannot be parsed: corrected spelling, a translation, or a similar example."""

import difflib
import re
from collections.abc import Callable

from schedules.when.foreign_words import in_english
from schedules.when.grammar import PhraseError, clean

# Each of these can be parsed; the most similar one is suggested.
REPEATS = (
    "every 15 minutes",
    "every 2 hours",
    "every hour",
    "every day at 9:00",
    "every day at 9:00 and 17:00",
    "every morning at 8:00",
    "every evening at 20:00",
    "every weekday at 8:30",
    "weekends at 10:00",
    "mondays at 9:00",
    "mondays and thursdays at 18:00",
    "every other day at 9:00",
    "every 2 weeks on monday at 9:00",
    "on the 1st of every month at 6:00",
    "on the last day of every month at 17:00",
    "first monday of the month at 10:00",
    "last friday of the month at 17:00",
    "every 3 months on the 1st at 9:00",
    "every quarter at 9:00",
    "every year on 24 december at 18:00",
    "when the machine starts",
    "every 20 minutes from 8:00 to 18:00 on weekdays",
)
MOMENTS = (
    "in 20 minutes",
    "in 2 hours",
    "in 3 days at 14:00",
    "today at 18:00",
    "tonight at 20:00",
    "tomorrow at 9:00",
    "tomorrow morning",
    "the day after tomorrow at 9:00",
    "friday at 12:00",
    "24 december at 18:00",
)
PAST_MOMENTS = (
    "now",
    "2 hours ago",
    "today at 9:00",
    "yesterday at 9:00",
    "yesterday",
    "sunday at 18:00",
)
_TEXT = """
    a after afternoon ago and at day days each end evening every first fifth fourth from half hour hourly hours in last
    midnight minute minutes month monthly months morning next night noon now of on other quarter second seconds the third
    this to today tomorrow tonight until week weekday weekdays weekend weekends weekly weeks year yearly yesterday daily
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays january february march april may june july august september october november december am pm
"""
_WORDS = tuple(_TEXT.split())
# Suggestions for words that no schedule contains.
_KEYWORDS = {
    r"\bnext week\b": "monday at 9:00",
    r"\bend of (?:the |every |each )?month\b": "on the last day of every month at 17:00",
    r"\bend of (?:the )?day\b": "today at 18:00",
    r"\b(?:christmas|xmas)\b": "25 december at 9:00",
    r"\b(?:soon|later)\b": "in 5 minutes",
    r"\b(?:asap|immediately|now)\b": "now",
}
# Cronty does not know where the person is, and the sun rises at another time every day.
_SUN = re.compile(r"\b(?:sunset|sunrise|sundown|dawn|dusk|twilight)\b")
_COUNTED_UNIT = re.compile(r"\b(\d+) (second|minute|hour|day|week|month|year)s?\b")
# Clock times and dates as other languages write them.
_FRENCH_CLOCK = re.compile(r"\b(\d{1,2}) ?h ?(\d\d)?\b")
_YEAR_FIRST = re.compile(r"\b(\d{4})/(\d{1,2})/(\d{1,2})\b")
_CLOSE_WORD, _CLOSE_PHRASE = 0.7, 0.6


def not_understood(
    what: str, phrase: str, examples: tuple[str, ...], read: Callable[[str], object], *, fallback: str
) -> str:
    """Return the error for a phrase that is not understood, with a suggestion or an example."""

    def is_understood(phrase: str) -> bool:
        try:
            read(phrase)
        except PhraseError:
            return False
        return True

    if sun := _SUN.search(phrase):
        return f'clock times only: look up the time of {sun[0]} and send it, like "tomorrow at 18:30"'
    english = in_english(phrase)
    if english != phrase and is_understood(clean(english, fallback)):
        return f'write it in English: "{english}"'
    similar = [suggestion for keyword, suggestion in _KEYWORDS.items() if re.search(keyword, phrase)]
    corrected = re.sub(r"[a-z]{3,}", lambda match: _corrected(match[0]), phrase)
    corrected = _COUNTED_UNIT.sub(
        lambda match: f"{match[1]} {match[2]}{'s' if match[1] != '1' else ''}", corrected
    )
    corrected = _FRENCH_CLOCK.sub(lambda match: f"{match[1]}:{match[2] or '00'}", corrected)
    corrected = _YEAR_FIRST.sub(lambda match: f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}", corrected)
    if not similar and corrected != phrase and is_understood(corrected):
        return f'couldn\'t read that {what}. Did you mean "{corrected}"?'
    similar += difflib.get_close_matches(phrase, examples, n=1, cutoff=_CLOSE_PHRASE)
    example = next(filter(is_understood, similar), None)
    return f"couldn't read that {what}. " + (f'Try "{example}"' if example else fallback)


def _corrected(word: str) -> str:
    if word in _WORDS:
        return word
    return next(iter(difflib.get_close_matches(word, _WORDS, n=1, cutoff=_CLOSE_WORD)), word)
