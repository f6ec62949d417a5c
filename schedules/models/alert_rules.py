"""Alert rules: parse the texts with which people and agents choose kinds of alerts, where they go, and quiet hours."""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from schedules import limits
from schedules.when.triggers import TriggerError, load_zone

KINDS = (
    "failing",
    "paused",
    "late",
    "missed",
    "no-worker",
    "prompt",
    "expiring",
    "needs-you",
    "over-limit",
)
"""The kinds of alerts."""
RECOVERED = "recovered"
"""The kind of the second message, when an incident is over."""
NEVER = "never"
OWNERS = "default"
"""The word for the settings of the owner."""
AT_NIGHT = "at night"
RULES_OF_JOB = (
    f'Where its alerts go: a topic, channel:NAME or never; and which: "not late", "also missed", "{AT_NIGHT}"'
)
"""What the alerts of one job may say, in short, for the help of forms, commands and schemas."""
EXAMPLES = (
    f'Write "never", or parts with commas: a topic or channel:NAME, "not late", "also missed", "{AT_NIGHT}".'
)

_SWITCH = re.compile(r"(not|also)\s+([a-z-]+)")
_PLACE = re.compile(rf"{limits.TOPIC_PATTERN}|^channel:[\w -]{{1,40}}$")
_QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*[-\u2013]\s*([01]?\d|2[0-3]):([0-5]\d)")


class AlertRules(NamedTuple):
    """The rules in one text; what it does not name stays at the default."""

    place: str = ""
    """A topic, `channel:` and a name, `never`, or an empty text."""
    off: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()
    at_night: bool = False
    """Whether alerts are also sent in quiet hours."""


def read_rules(text: str) -> AlertRules:
    """Read the rules of a job or a person; raises ValueError with the reason."""
    place, off, on, at_night = "", set[str](), set[str](), False
    for part in filter(None, (part.strip() for part in text.split(","))):
        if match := _SWITCH.fullmatch(part.lower()):
            switch, kind = match.groups()
            if kind not in (*KINDS, RECOVERED):
                raise ValueError(
                    f"{kind} is no kind of alert: choose one of {', '.join((*KINDS, RECOVERED))}."
                )
            (on if switch == "also" else off).add(kind)
        elif part.lower() == AT_NIGHT:
            at_night = True
        elif part.lower() == OWNERS:
            # Strangers could read a public topic of this name.
            continue
        elif _PLACE.fullmatch(part):
            if place:
                raise ValueError(f"Name one place: {place} or {part}.")
            place = part
        else:
            raise ValueError(EXAMPLES)
    if both := on & off:
        raise ValueError(f"It says both also and not: {', '.join(sorted(both))}.")
    return AlertRules(place, frozenset(off), frozenset(on), at_night)


def stored_rules(text: str) -> AlertRules:
    """Return the rules of a stored text; an invalid text counts as empty."""
    try:
        return read_rules(text)
    except ValueError:
        return AlertRules()


def wants(kind: str, person: AlertRules, job: AlertRules) -> bool:
    """Return whether a message of this kind is wanted; the job's rules take precedence."""
    return kind in job.on or (kind not in job.off and kind not in person.off)


def rules_problem(text: str, *, of_person: bool = False) -> str | None:
    """Return why a text is not accepted, or None; for a person, the place of alerts is a separate setting."""
    try:
        rules = read_rules(text)
    except ValueError as error:
        return str(error)
    return 'Only write "not late", "also missed" and the like here.' if of_person and rules.place else None


def read_quiet_hours(text: str) -> str:
    """Return quiet hours as they are stored, like 22:00-07:00; raises ValueError if they are not understood."""
    match = _QUIET.fullmatch(text.strip())
    if text.strip() and (match is None or (match[1], match[2]) == (match[3], match[4])):
        raise ValueError("Write two times of day, like 22:00-07:00.")
    return f"{int(match[1]):02}:{match[2]}-{int(match[3]):02}:{match[4]}" if match else ""


def quiet_until(hours: str, timezone: str, now: datetime) -> datetime | None:
    """Return when the current quiet hours end, or None outside them."""
    match = _QUIET.fullmatch(hours.strip())
    if match is None:
        return None
    try:
        local = now.astimezone(load_zone(timezone))
    except TriggerError:
        local = now
    begin, end = (60 * int(match[n]) + int(match[n + 1]) for n in (1, 3))
    minute = 60 * local.hour + local.minute
    is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
    if not is_quiet:
        return None
    day = local if minute < end else local + timedelta(days=1)
    # On the wall clock of the zone, because the night of a clock change may be longer or shorter.
    return day.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0).astimezone(now.tzinfo)
