"""A whole schedule in words: what repeats, until when, and on which days it does not run."""

import re
from dataclasses import dataclass
from datetime import date, datetime

from schedules.when.grammar import PhraseError, clean
from schedules.when.phrases import parse_day, parse_end
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import Once, Trigger

_CLAUSE = re.compile(r",? (?P<word>starting|beginning|until|till|except|but not)(?: on| at| from)? ")
_EXAMPLES = 'Try "every weekday at 8:30 until 24 december"'


@dataclass(frozen=True, slots=True)
class Plan:
    """When a job runs, its last moment, and the days of its zone that it leaves out."""

    trigger: Trigger
    ends_at: datetime | None = None
    skipped_days: tuple[date, ...] = ()


def parse_plan(text: str, *, now: datetime, timezone: str) -> Plan:
    """Return the plan that a text means: "every weekday at 8:30 until 24 december except 1 december"."""
    try:
        return Plan(parse_trigger(text, now=now, timezone=timezone))
    except PhraseError:
        repeat, ends, exceptions = _split(clean(text, _EXAMPLES))
        if not (ends or exceptions):
            raise
    trigger = parse_trigger(repeat, now=now, timezone=timezone)
    if isinstance(trigger, Once):
        raise PhraseError("what runs once has no end and no exceptions. Write only its date and time")
    if len(ends) > 1:
        raise PhraseError("enter one end only")
    ends_at = parse_end(ends[0], now=now, timezone=timezone) if ends else None
    days = [parse_day(day, now=now, timezone=timezone) for day in exceptions]
    return Plan(trigger, ends_at, tuple(sorted(set(days))))


def _split(phrase: str) -> tuple[str, list[str], list[str]]:
    """Return a phrase without its last clauses, the ends, and the days that it names as exceptions.

    Weekdays among the exceptions, and a start, stay part of what repeats.
    """
    matches = list(_CLAUSE.finditer(phrase))
    repeat, ends, days = phrase[: matches[0].start()] if matches else phrase, [], []
    starts = ""
    for number, match in enumerate(matches):
        following = matches[number + 1].start() if number + 1 < len(matches) else len(phrase)
        value = phrase[match.end() : following]
        if match["word"] in ("until", "till"):
            ends.append(value)
        elif match["word"] in ("starting", "beginning"):
            starts += f" starting {value}"
        elif re.search(r"\d|today|tomorrow", value):
            days += re.split(r",? and |, ", value)
        else:
            repeat += f" except {value}"
    return repeat + starts, ends, days
