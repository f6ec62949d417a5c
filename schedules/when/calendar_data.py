"""Calendars as JSON, which every process can read without the libraries that compiled them."""

import hashlib
import json
from datetime import UTC, date, datetime
from typing import Any

from schedules.when.calendars import Calendar, Hours, Span
from schedules.when.ics import IcsEvent


def stored(calendar: Calendar) -> str:
    """Serialize a calendar; equal calendars give equal texts."""
    data: dict[str, Any] = {
        "name": calendar.name,
        "words": calendar.words,
        "closes": calendar.closes,
        "timezone": calendar.timezone,
        "days": dict(sorted(calendar.days.items())),
        "hours": sorted(calendar.hours),
        "periods": [
            [int(span.start.timestamp()), int(span.end.timestamp()), span.why] for span in calendar.periods
        ],
        "until": calendar.until and calendar.until.isoformat(),
    }
    if calendar.events:
        data["events"] = [[_stored(start), _stored(end), title] for start, end, title in calendar.events]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def read(text: str) -> Calendar:
    """Parse a serialized calendar."""
    data = json.loads(text)
    periods = [Span(_moment(start), _moment(end), why) for start, end, why in data["periods"]]
    until = date.fromisoformat(data["until"]) if data["until"] else None
    hours = [Hours(*window) for window in data["hours"]]
    events = [IcsEvent(_read(start), _read(end), title) for start, end, title in data.get("events", ())]
    plain = {name: data[name] for name in ("name", "words", "closes", "timezone", "days")}
    return Calendar(**plain, hours=hours, periods=periods, until=until, events=events)


def digest(text: str) -> str:
    """Return a short digest of a serialized calendar."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _stored(value: datetime | date) -> int | str:
    """Return a moment in seconds, or a day as text."""
    return int(value.timestamp()) if isinstance(value, datetime) else value.isoformat()


def _read(value: int | str) -> datetime | date:
    return date.fromisoformat(value) if isinstance(value, str) else _moment(value)
