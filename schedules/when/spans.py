"""Durations and times of day that stand by themselves: "1h30m", "ten minutes", "8:30"."""

import re
from datetime import datetime, time, timedelta

from schedules.when.phrases import PhraseError, parse_delay, parse_moment

_ZERO = re.compile(r"0+(?:\.0+)?s?")
# fromisoformat() also accepts 15 and 15:00+01:00.
_CLOCK_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")


def parse_span(text: str, now: datetime) -> timedelta:
    """Return the duration that a text means, which may be zero."""
    return timedelta(0) if _ZERO.fullmatch(text.strip()) else parse_longer_span(text, now)


def parse_longer_span(text: str, now: datetime) -> timedelta:
    """Return the duration of "1h30m", or of words like "ten minutes"."""
    try:
        return parse_delay(text)
    except PhraseError:
        try:
            return parse_moment(f"in {text}", now=now, timezone="UTC") - now
        except PhraseError:
            pass
        raise


def parse_clock_time(text: str) -> time | None:
    """Return the time of day of "8:30" or "15:00:00", or None."""
    try:
        return (
            time.fromisoformat(text if text[1:2] != ":" else f"0{text}")
            if _CLOCK_TIME.fullmatch(text)
            else None
        )
    except ValueError:
        return None
