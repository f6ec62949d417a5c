"""Moments as text, in a time zone."""

from datetime import datetime

from schedules.when.triggers import TriggerError, load_zone


def local_words(moment: datetime, timezone: str) -> str:
    """Format a moment in a zone, or in UTC if the zone is unknown."""
    try:
        return f"{moment.astimezone(load_zone(timezone)):%Y-%m-%d %H:%M:%S} {timezone}"
    except TriggerError:
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def short_words(moment: datetime, timezone: str) -> str:
    """Format a moment in a zone for a sentence: "Sun 15 Nov 2026 20:18"; in UTC if the zone is unknown."""
    try:
        local = moment.astimezone(load_zone(timezone))
    except TriggerError:
        local = moment
    return f"{local:%a} {local.day} {local:%b %Y %H:%M}"


def in_the_past(now: datetime, timezone: str) -> str:
    """Return the error for a moment in the past, with the current time in the zone."""
    return f"That time is in the past (now {local_words(now, timezone)})."
