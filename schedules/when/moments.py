"""Moments as text, in a time zone."""

from datetime import datetime

from schedules.when.triggers import TriggerError, load_zone


def local_words(moment: datetime, timezone: str) -> str:
    """Format a moment in a zone, or in UTC if the zone is unknown."""
    try:
        return f"{moment.astimezone(load_zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
    except TriggerError:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def in_the_past(now: datetime, timezone: str) -> str:
    """Return the error for a moment in the past, with the current time in the zone."""
    return f"This moment is in the past (now {local_words(now, timezone)})."
