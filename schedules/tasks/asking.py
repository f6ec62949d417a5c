"""Questions in notifications: how to ask for an answer, and how often to repeat it until there is one."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from schedules import limits
from schedules.when import durations
from schedules.when.phrases import PhraseError, parse_delay, parse_moment

SHORTEST_INTERVAL = timedelta(minutes=1)
LONGEST_INTERVAL = timedelta(days=7)
MOST_REMINDERS = 100
USUAL_REMINDERS = 10
EXAMPLES = 'Write "yes", "every 10m", "every 10m 5 times" or "every 1h 3 times then other-topic".'

_ASK = re.compile(
    r"every\s+(?P<every>[^,]{1,40}?)"
    r"(?:,?\s+(?:at most\s+)?(?P<times>[0-9]{1,9})\s+times?)?"
    r"(?:,?\s+then\s+(?P<then>\S{1,64}))?",
    re.IGNORECASE,
)
_ONCE = ("yes", "once", "true")


class Ask(NamedTuple):
    """What a notification asks for: an answer, and reminders until there is one."""

    every: timedelta | None = None
    times: int = 0
    then: str = ""
    """The topic that is told if nobody has answered all reminders."""

    @property
    def steps(self) -> int:
        """How many reminders are sent at most, the last of them to the other topic."""
        return self.times + bool(self.then) if self.every else 0

    @property
    def words(self) -> str:
        if not self.every:
            return "once"
        times = f"{self.times} time{'' if self.times == 1 else 's'}"
        then = f", then {self.then}" if self.then else ""
        return f"every {durations.in_words(self.every)}, at most {times}{then}"


class Again(NamedTuple):
    """Which reminder a message is."""

    number: int
    """0 for one that a snooze asked for."""
    most: int
    topic: str
    """Another topic than that of the job, because nobody has answered so far; or an empty text."""


def read_ask(text: str) -> Ask:
    """Read what to ask for; raises ValueError with the reason."""
    phrase = " ".join(text.split())
    if phrase.lower() in _ONCE:
        return Ask()
    match = _ASK.fullmatch(phrase)
    if match is None:
        raise ValueError(f"this is not understood. {EXAMPLES}")
    every = _interval(match["every"])
    times = int(match["times"] or USUAL_REMINDERS)
    if not 1 <= times <= MOST_REMINDERS:
        raise ValueError(f"choose 1 to {MOST_REMINDERS} reminders")
    then = match["then"] or ""
    if then and (problem := limits.topic_problem(then)):
        raise ValueError(f"the topic after “then”: {problem}")
    return Ask(every, times, then)


def _interval(text: str) -> timedelta:
    now = datetime(2000, 1, 1, tzinfo=UTC)
    every = None
    with suppress(PhraseError):
        every = parse_delay(text)
    for phrase in (f"in {text}", f"in 1 {text}"):
        with suppress(PhraseError):
            every = every or parse_moment(phrase, now=now, timezone="UTC") - now
    if every is None:
        raise ValueError(f"the interval is not understood. {EXAMPLES}")
    if not SHORTEST_INTERVAL <= every <= LONGEST_INTERVAL:
        raise ValueError("choose an interval from one minute to seven days")
    return every
