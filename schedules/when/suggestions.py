"""The phrase that was probably meant by a text that is not understood."""

import difflib
import re
from collections.abc import Callable

from schedules.when.vocabulary import PhraseError

# Every one of them is understood; the closest one is suggested.
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
# What words suggest that no schedule contains.
_KEYWORDS = {
    r"\bnext week\b": "monday at 9:00",
    r"\bend of (?:the |every |each )?month\b": "on the last day of every month at 17:00",
    r"\bend of (?:the )?day\b": "today at 18:00",
    r"\b(?:christmas|xmas)\b": "25 december at 9:00",
    r"\b(?:asap|immediately|now|soon|later)\b": "in 5 minutes",
}
_CLOSE_WORD, _CLOSE_PHRASE = 0.7, 0.6


def unread(
    what: str, phrase: str, examples: tuple[str, ...], read: Callable[[str], object], *, fallback: str
) -> str:
    """Return the error for a phrase that is not understood, with what was probably meant, or with an example."""
    known = [suggestion for keyword, suggestion in _KEYWORDS.items() if re.search(keyword, phrase)]
    corrected = re.sub(r"[a-z]{3,}", lambda match: _corrected(match[0]), phrase)
    if not known and corrected != phrase and _is_read(corrected, read):
        return f'couldn\'t read that {what}. Did you mean "{corrected}"?'
    known += difflib.get_close_matches(phrase, examples, n=1, cutoff=_CLOSE_PHRASE)
    similar = next((example for example in known if _is_read(example, read)), None)
    return f"couldn't read that {what}. " + (f'Try "{similar}"' if similar else fallback)


def _is_read(phrase: str, read: Callable[[str], object]) -> bool:
    try:
        read(phrase)
    except PhraseError:
        return False
    return True


def _corrected(word: str) -> str:
    if word in _WORDS:
        return word
    close = difflib.get_close_matches(word, _WORDS, n=1, cutoff=_CLOSE_WORD)
    return close[0] if close else word
