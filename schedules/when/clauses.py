"""Parse a whole schedule in words: what repeats, until when, on which days it does not run, and its random delay."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from schedules.when.calendar_rules import usual_name
from schedules.when.grammar import PhraseError, clean
from schedules.when.phrases import parse_amount, parse_day, parse_end
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import Once, Trigger

_CLAUSE = re.compile(r",? (?P<word>starting|beginning|until|till|except|but not|within)(?: on| at| from)? ")
_NAMES_CALENDAR = re.compile(r"(?:except|but not) .*(?:holidays|calendar)", re.IGNORECASE)
_CALENDAR = re.compile(r"(?:the )?(?:(?:public |bank )?holidays(?: in .+)?|calendar (?P<name>.+))")
_EXAMPLES = 'Try "every weekday at 8:30 until 24 december"'


@dataclass(frozen=True, slots=True)
class Plan:
    """When a job runs, its last moment, and the days of its zone that it skips."""

    trigger: Trigger
    ends_at: datetime | None = None
    skipped_days: tuple[date, ...] = ()
    calendars: tuple[str, ...] = ()
    """The calendars whose days it skips, as typed: "public holidays in bavaria"."""
    spread: timedelta = timedelta(0)
    """Its runs start later by a delay below this, which is fixed for each job."""

    @property
    def clauses(self) -> dict[str, Any]:
        """The columns that it sets besides the trigger."""
        return {name: value for name in ("ends_at", "calendars", "spread") if (value := getattr(self, name))}


def parse_plan(text: str, *, now: datetime, timezone: str) -> Plan:
    """Return the plan that a text means: "every weekday at 8:30 until 24 december except 1 december"."""
    calendars: tuple[str, ...] = ()
    # Values from files and agents may be no text, which the parsers below refuse.
    if _NAMES_CALENDAR.search(str(text)):
        text, calendars = _without_calendars(clean(text, _EXAMPLES))
    if calendars:
        plan = parse_plan(text, now=now, timezone=timezone)
        if isinstance(plan.trigger, Once):
            raise PhraseError("what runs once has no exceptions. Write only its date and time")
        return replace(plan, calendars=calendars)
    try:
        return Plan(parse_trigger(text, now=now, timezone=timezone))
    except PhraseError:
        repeat, ends, exceptions, spreads = _split(clean(text, _EXAMPLES))
        if not (ends or exceptions or spreads):
            raise
    trigger = parse_trigger(repeat, now=now, timezone=timezone)
    if isinstance(trigger, Once) and (ends or exceptions):
        raise PhraseError("what runs once has no end and no exceptions. Write only its date and time")
    if isinstance(trigger, Once):
        raise PhraseError("what runs once has no random delay. Write only its date and time")
    if len(spreads) > 1:
        raise PhraseError("enter one random delay only")
    if len(ends) > 1:
        raise PhraseError("enter one end only")
    ends_at = parse_end(ends[0], now=now, timezone=timezone) if ends else None
    days = [parse_day(day, now=now, timezone=timezone) for day in exceptions]
    spread = _read_spread(spreads[0]) if spreads else timedelta(0)
    return Plan(trigger, ends_at, tuple(sorted(set(days))), spread=spread)


def _read_spread(text: str) -> timedelta:
    try:
        return parse_amount(text)
    except PhraseError as error:
        raise PhraseError(f"couldn't read {text[:40]!r} as a random delay. Write minutes or hours") from error


def _without_calendars(phrase: str) -> tuple[str, tuple[str, ...]]:
    """Remove the clauses that name calendars; return the rest of the phrase, and the names."""
    rest, names, end = "", [], len(phrase)
    for match in reversed(list(_CLAUSE.finditer(phrase))):
        value = phrase[match.end() : end]
        calendar = _CALENDAR.fullmatch(value) if match["word"] in ("except", "but not") else None
        if calendar:
            names.append(calendar["name"] or value.removeprefix("the "))
        else:
            rest = phrase[match.start() : end] + rest
        end = match.start()
    return phrase[:end] + rest, tuple(reversed(names))


def named_calendars(names: Iterable[str], titles: Mapping[str, str]) -> list[str]:
    """Return the calendars that a plan names; `titles` has all calendars by name. Raises PhraseError for an unknown name.

    "Holidays" alone means the only calendar of holidays. Public holidays of a place that have no calendar yet are named as
    a new calendar of them is: DE-BY.
    """
    chosen = []
    for name in names:
        lowered = name.lower()
        exact = [each for each, title in titles.items() if lowered in (each.lower(), title.lower())]
        described = lowered.removeprefix("bank ")
        holidays = [each for each, title in titles.items() if f"{described} " in f"{title.lower()} "]
        matches = exact or holidays
        if not matches and (usual := usual_name(name)):
            matches = [usual]
        if len(matches) != 1:
            choices = f"Choose one of: {', '.join(titles)}" if titles else "Create it under Settings"
            choices += ", or name public holidays, like DE-BY"
            raise PhraseError(
                f"{'no' if not matches else 'more than one'} calendar is called {name!r}. {choices}"
            )
        chosen.append(matches[0])
    return list(dict.fromkeys(chosen))


def _split(phrase: str) -> tuple[str, list[str], list[str], list[str]]:
    """Split a phrase into the schedule, its ends, the days that it excludes, and its random delays.

    Weekdays among the exceptions, and a start, stay part of what repeats.
    """
    matches = list(_CLAUSE.finditer(phrase))
    repeat, ends, days = phrase[: matches[0].start()] if matches else phrase, [], []
    starts, spreads = "", []
    for number, match in enumerate(matches):
        following = matches[number + 1].start() if number + 1 < len(matches) else len(phrase)
        value = phrase[match.end() : following]
        if match["word"] in ("until", "till"):
            ends.append(value)
        elif match["word"] == "within":
            spreads.append(value)
        elif match["word"] in ("starting", "beginning"):
            starts += f" starting {value}"
        elif re.search(r"\d|today|tomorrow", value):
            days += re.split(r",? and |, ", value)
        else:
            repeat += f" except {value}"
    return repeat + starts, ends, days, spreads
