"""Split one line into what to do and when: "take out the bins every second tuesday 18:00"."""

import re
from dataclasses import dataclass
from datetime import datetime

from schedules.when.clauses import Plan, parse_plan
from schedules.when.grammar import WEEKDAY, NotUnderstoodError, PhraseError
from schedules.when.triggers import Once

LONGEST_SENTENCE = 300
_EXAMPLE = '"take out the bins every second tuesday 18:00"'
_OPENING = re.compile(r"(?:please )?remind me(?: to| about| of)?(?: |$)", re.IGNORECASE)
# A bare short weekday, number or amount belongs to the text: "read the sun", "walk 10 minutes".
_NO_SCHEDULE = re.compile(
    r"(?:sun|mon|tue|wed|thu|fri|sat)s?|\d+|(?!in )[\w.]+ ?(?:w|d|h|m|s|(?:week|day|hour|hr|minute|min|second|sec)s?)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    rf"(?:every|each|daily|weekly|monthly|yearly|weekdays?|weekends?|{WEEKDAY}s?|at|in|on|next|today|tonight|tomorrow)\b",
    re.IGNORECASE,
)
_LOOSE_END = re.compile(r"(?:[\s,:;–-]|\b(?:on|at|and)$)+$", re.IGNORECASE)
_LOOSE_START = re.compile(r"^(?:[\s,:;–-]|to )+", re.IGNORECASE)
_REPEATS = re.compile(r"\b(?:every|each)\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What to do, the words that say when, and their meaning."""

    what: str
    when: str
    plan: Plan


def parse_sentence(text: str, *, now: datetime, timezone: str) -> Sentence:
    """Split a line into what to do and when; raise PhraseError with the reason if it is unclear.

    The schedule is the longest end of the line that can be read, or else its longest beginning.
    """
    if len(text) > LONGEST_SENTENCE:
        raise PhraseError(f"enter at most {LONGEST_SENTENCE} characters")
    line = _OPENING.sub("", " ".join(text.split()), count=1)
    words = line.split(" ")
    splits = [(" ".join(words[:at]), " ".join(words[at:])) for at in range(len(words))]
    splits += [(" ".join(words[at:]), " ".join(words[:at])) for at in range(len(words) - 1, 0, -1)]
    refusal: PhraseError | None = None
    for what, when in splits:
        when = when.rstrip(" ,:;")
        if not when or _NO_SCHEDULE.fullmatch(when):
            continue
        try:
            plan = parse_plan(when, now=now, timezone=timezone)
        except NotUnderstoodError:
            continue
        except PhraseError as error:
            # For a text that only ends like a schedule, the reason would mislead.
            if _FIRST_WORD.match(when):
                refusal = refusal or error
            continue
        if refusal:
            raise refusal
        return _checked(what, when, plan)
    if refusal:
        raise refusal
    raise PhraseError(f"when? Write what to do, then when: {_EXAMPLE}")


def _checked(what: str, when: str, plan: Plan) -> Sentence:
    what = _LOOSE_START.sub("", _LOOSE_END.sub("", what))
    if not what:
        raise PhraseError(f"what should happen? Write what to do, then when: {_EXAMPLE}")
    if isinstance(plan.trigger, Once) and (repeats := _REPEATS.search(what)):
        raise PhraseError(f'couldn\'t read "{repeats[0]} {when}" as a schedule. Try {_EXAMPLE}')
    return Sentence(what[0].upper() + what[1:], when, plan)
