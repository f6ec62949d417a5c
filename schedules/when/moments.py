"""Moments in words, on the clock of a zone."""

from datetime import datetime

from schedules.when.triggers import TriggerError, load_zone


def local_words(moment: datetime, timezone: str) -> str:
    """Write a moment on the clock of a zone; in UTC if there is no such zone."""
    try:
        return f"{moment.astimezone(load_zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
    except TriggerError:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def in_the_past(now: datetime, timezone: str) -> str:
    """Say that a chosen moment has passed, with the time it is now in the zone it was chosen for."""
    return f"This moment is in the past (now {local_words(now, timezone)})."
