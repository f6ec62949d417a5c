"""Write a trigger as a phrase that parses to the same trigger."""

import re
from datetime import UTC, datetime

from schedules.when import cron
from schedules.when.event_times import AtEvents
from schedules.when.grammar import MAX_LENGTH, PhraseError
from schedules.when.repeats import parse_trigger
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Trigger, load_zone
from schedules.when.unplanned import Unplanned
from schedules.when.zones import is_repeated, wall_time

# Any moment will do: the phrase of a cron expression does not depend on it.
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = 24 * 3600


def phrase_of(trigger: Trigger) -> str:
    """Return a phrase that parses to this trigger; its times have no fractions of a second."""
    match trigger:
        case Once(run_at=moment, timezone=zone):
            local = moment.astimezone(load_zone(zone))
            return _format(local if is_repeated(local) else local.replace(tzinfo=None))
        case Interval(seconds=seconds, start=start):
            # Whole days would be read as days of the calendar.
            phrase = trigger.words().lower() if seconds % _DAY else f"every {int(seconds) // 3600} hours"
            return f"{phrase}, starting {_format(start.astimezone(UTC))}"
        case CalendarInterval(count=count, unit=unit, start=start, timezone=zone):
            if unit == "days" and count % 7 == 0:
                count, unit = count // 7, "weeks"
            start = wall_time(start, load_zone(zone))
            return f"every {count} {unit if count > 1 else unit[:-1]}, starting {_format(start)}"
        case Cron(expression=expression):
            return _phrase_of_cron(trigger, expression)
        case AtEvents(times=times):
            return times.phrase
        case Unplanned():
            return trigger.words().lower()


def _format(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds" if moment.second else "minutes")


def _phrase_of_cron(trigger: Cron, expression: str) -> str:
    """Return a cron expression in words, or the expression itself if they would be parsed differently."""
    phrase = trigger.words()
    phrase = (
        phrase[0].lower() + phrase[1:]
        if phrase.startswith(("Every", "On", "From", "Weekends", "At"))
        else phrase
    )
    phrase = phrase.replace("–", "-")
    for candidate in (re.sub(r"\b0(\d:\d\d)", r"\1", phrase), phrase):
        try:
            read = parse_trigger(candidate, now=_NOW, timezone=trigger.timezone)
        except PhraseError:
            continue
        if len(candidate) <= MAX_LENGTH and isinstance(read, Cron) and _matches(read.expression, expression):
            return candidate
    return expression


def _matches(one: str, other: str) -> bool:
    """Return whether two expressions match the same moments, however they are written."""
    return one == other or _fields(one) == _fields(other)


def _fields(expression: str) -> tuple[object, ...]:
    minute, hour = cron.split(expression)[:2]
    parsed, others, working = cron.parsed(expression)
    # With a step or a list, an expression may differ after a change of clocks.
    is_any = (minute.startswith("*"), hour.startswith("*"))
    return is_any, parsed, not others, working
