"""Questions in notifications: parse phrases like "every 10m 5 times", which say how often to remind a person."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple

from schedules import limits
from schedules.when import durations
from schedules.when.phrases import PhraseError, parse_amount

SHORTEST_INTERVAL = timedelta(minutes=1)
LONGEST_INTERVAL = timedelta(days=7)
MAX_REMINDERS = 100
DEFAULT_REMINDERS = 10
EXAMPLES = 'Write "yes", "every 10m", "every 10m 5 times" or "every 1h 3 times then other-topic".'

_ASK = re.compile(
    r"every\s+(?P<every>[^,]{1,40}?)"
    r"(?:,?\s+(?:at most\s+)?(?P<times>[0-9]{1,9})\s+times?)?"
    r"(?:,?\s+then\s+(?P<then>\S.{0,63}))?",
    re.IGNORECASE,
)
_ONCE = ("yes", "once", "true")


class Ask(NamedTuple):
    """The request for an answer in a notification, with reminders until there is one."""

    every: timedelta | None = None
    times: int = 0
    then: str = ""
    """The topic, or `channel:` and a channel's name, that gets a last reminder if nobody answers."""

    @property
    def steps(self) -> int:
        """The maximum number of reminders, including the last one to the other place."""
        return self.times + bool(self.then) if self.every else 0

    @property
    def words(self) -> str:
        if not self.every:
            return "once"
        times = f"{self.times} time{'' if self.times == 1 else 's'}"
        then = f", then {place_words(self.then)}" if self.then else ""
        return f"every {durations.in_words(self.every)}, at most {times}{then}"


class ReminderStep(NamedTuple):
    """Which of its question's reminders a message is; the fields are columns of `Reminder`."""

    number: int
    """Counts from 1; 0 is a reminder that a snooze asked for."""
    most: int
    topic: str
    """The other topic, or `channel:` and a channel's name, that it goes to because nobody has answered; or empty."""

    @property
    def channel(self) -> str:
        """The name of the other channel that it goes to, or an empty text."""
        return limits.channel_in(self.topic)


def read_ask(text: str) -> Ask:
    """Parse a phrase; raises ValueError with the reason if it is not understood."""
    phrase = text.strip()
    if phrase.lower() in _ONCE:
        return Ask()
    match = _ASK.fullmatch(phrase)
    if match is None:
        raise ValueError(f"this is not understood. {EXAMPLES}")
    every = _interval(" ".join(match["every"].split()))
    times = int(match["times"] or DEFAULT_REMINDERS)
    if not 1 <= times <= MAX_REMINDERS:
        raise ValueError(f"choose 1 to {MAX_REMINDERS} reminders")
    then = match["then"] or ""
    if then.startswith(limits.CHANNEL_PREFIX):
        if not limits.CHANNEL_NAME.fullmatch(limits.channel_in(then)):
            raise ValueError("write the name of a channel after “then channel:”")
    elif then and (problem := limits.topic_problem(then)):
        raise ValueError(f"the topic after “then”: {problem}")
    return Ask(every, times, then)


def with_place(text: str, place_for: Callable[[str], str]) -> str:
    """Replace what follows “then” in a phrase by what a function returns for it."""
    match = _ASK.fullmatch(text.strip())
    if match is None or not match["then"]:
        return text
    return match.string[: match.start("then")] + place_for(match["then"])


def place_words(place: str) -> str:
    """Name a topic or channel in a sentence."""
    channel = limits.channel_in(place)
    return f"the channel {channel}" if channel else place


def _interval(text: str) -> timedelta:
    every = None
    for amount in (text, f"1 {text}"):
        with suppress(PhraseError):
            every = every or parse_amount(amount)
    if every is None:
        raise ValueError(f"the interval is not understood. {EXAMPLES}")
    if not SHORTEST_INTERVAL <= every <= LONGEST_INTERVAL:
        raise ValueError("choose an interval from one minute to seven days")
    return every
