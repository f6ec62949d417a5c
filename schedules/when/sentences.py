"""Split one line into what to do and when: "take out the bins every second tuesday 18:00"."""

import re
from dataclasses import dataclass
from datetime import datetime

from schedules.when.clauses import Plan, parse_plan
from schedules.when.grammar import NUMBER, WEEKDAY, NotUnderstoodError, PhraseError

LONGEST_SENTENCE = 300
_OPENING = re.compile(r"^(?:please )?remind me(?: to| about| of)?(?: |$)", re.IGNORECASE)
# A bare short weekday, number or amount belongs to the text: "read the sun", "walk 10 minutes".
_NO_SCHEDULE = re.compile(
    rf"(?:sun|mon|tue|wed|thu|fri|sat)s?|\d+|(?:[\d.]+|{NUMBER}) ?(?:w|d|h|m|s|(?:week|day|hour|hr|minute|min|second|sec)s?)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    rf"(?:every|each|daily|weekly|monthly|yearly|weekdays?|weekends?|{WEEKDAY}s?|at|in|on|next|today|tonight|tomorrow)\b",
    re.IGNORECASE,
)
_LOOSE_END = re.compile(r"(?:[\s,:;–-]|\b(?:on|at|and)$)+$", re.IGNORECASE)
_LOOSE_START = re.compile(r"^(?:[\s,:;–-]|to )+", re.IGNORECASE)
_UNTIL_DONE = r"until (?:(?:i(?:'ve| have)?|it(?:'s| is)?) (?:say |am |was )?)?(?:done|confirm(?:ed)?|answer(?:ed)?|did it)\b"
# At the end of a line: "and nag me every 10 minutes until done".
_ASK = re.compile(
    r"(?:,? and|,)? (?:nag|ask|remind|keep (?:asking|reminding))(?: me)?(?: again)?,? "
    rf"(?P<ask>every (?:half an|{NUMBER} ?)? ?[a-z]+(?:,? (?:at most )?\d+ times)?)(?:,? {_UNTIL_DONE})?[.!]*$",
    re.IGNORECASE,
)
# What may not be left over in the text, because it says when.
_LEFT_OVER = re.compile(
    r"(?:\b(?:every|each|nag|nagging)\b|\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bat (?:\d{1,2}\b|noon\b|midnight\b)"
    r"|\b(?:half|quarter) past\b|\bin \d+ ?(?:m|h|d|mins?|minutes?|hours?|days?|weeks?)\b"
    rf"|\b(?:once|twice|{NUMBER} times) (?:a|per) (?:day|week|month|year)\b|\b{_UNTIL_DONE}).*",
    re.IGNORECASE,
)
# A day just before the schedule belongs to it, but not that of "prepare for monday".
_DAY_BEFORE = re.compile(
    r"(?<!\bfor )(?<!\bof )(?<!\bthe )(?<!\babout )\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun|week)days?|weekends?|today|tonight|tomorrow)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What to do, the words that say when, and their meaning."""

    what: str
    when: str
    plan: Plan
    ask: str = ""
    """How often to remind until it is done: "every 10 minutes"."""


def parse_sentence(text: str, *, now: datetime, timezone: str) -> Sentence:
    """Split a line into what to do and when; raise PhraseError with the reason if it is unclear.

    The schedule is the longest end of the line that can be read, or else its longest beginning.
    """
    if len(text) > LONGEST_SENTENCE:
        raise PhraseError(f"enter at most {LONGEST_SENTENCE} characters")
    line = _OPENING.sub("", " ".join(text.split()), count=1)
    ask = ""
    if match := _ASK.search(line):
        line, ask = line[: match.start()], match["ask"]
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
            break
        return _checked(what, when, plan, ask, is_after=line.startswith(what))
    if re.search(rf"{_UNTIL_DONE}|\bnag me\b", line, re.IGNORECASE):
        raise PhraseError('remind how often until it is done? End the line with "ask every" and how often')
    raise refusal or PhraseError("when? No day and time was understood. Write what to do, then when")


def _checked(what: str, when: str, plan: Plan, ask: str, *, is_after: bool) -> Sentence:
    what = _LOOSE_START.sub("", _LOOSE_END.sub("", what))
    if not what:
        raise PhraseError("what should happen? Write what to do, then when")
    if left_over := _LEFT_OVER.search(what) or (_DAY_BEFORE.search(what) if is_after else None):
        raise PhraseError(
            f'couldn\'t read "{left_over[0]}" beside "{when}". Write one schedule, or use the form if this belongs to the text'
        )
    return Sentence(what[0].upper() + what[1:], when, plan, ask)
