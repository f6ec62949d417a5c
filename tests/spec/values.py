"""What values of a job's fields mean: one table for every door."""

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
VALUES = [
    ("timeout", "5m", timedelta(minutes=5)),
    ("timeout", "2 minutes", timedelta(minutes=2)),
    ("timeout", "an hour", timedelta(hours=1)),
    ("timeout", "1h 30m", timedelta(minutes=90)),
    ("timeout", "90", timedelta(seconds=90)),
    ("timeout", 90, timedelta(seconds=90)),
    ("backoff", 0.5, timedelta(seconds=0.5)),
    ("spread", "0", timedelta(0)),
    ("spread", 0, timedelta(0)),
    ("timezone", "Berlin", "Europe/Berlin"),
    ("timezone", "europe/berlin", "Europe/Berlin"),
    ("ends_at", "none", None),
    ("ends_at", "", None),
    ("ends_at", "2026-12-24", datetime(2026, 12, 24, 23, 59, 59, 999999, tzinfo=UTC)),
    ("ends_at", "2026-12-24T18:00", datetime(2026, 12, 24, 18, tzinfo=UTC)),
    ("max_runs", 0, None),
    ("max_runs", 3, 3),
    ("alerts", "Default", ""),
    ("alerts", "never", "never"),
    ("calendars", ["DE-BY", ""], ["DE-BY"]),
    ("label", "by Ann", "by Ann"),
    ("tags", [""], []),
    ("at_most_once", True, True),
    ("urgent", True, True),
    ("fixed_backoff", False, False),
    ("on_closed", "next", "next"),
    ("overlap", "queue", "queue"),
    ("pause_after_failures", 0, 0),
]
# Refused by every door, with these words in the reason.
REFUSED = [
    ("timeout", "soon", "couldn't read that duration"),
    ("timezone", "Nowhere", "unknown time zone"),
    ("ends_at", "sometime", "couldn't read"),
    ("attempts", 11, "10 or less"),
    ("overlap", "both", "queue"),
]
# Refused by the doors that take values of any type.
MISTYPED = [
    ("timeout", True, "give a duration"),
    ("timeout", -1, "choose 0 to 1,000,000,000 seconds"),
    ("max_runs", "3", "give a whole number"),
    ("attempts", True, "give a whole number"),
    ("at_most_once", "yes", "give true or false"),
    ("tags", "home", "give a list"),
    ("label", 5, "give a text"),
    ("colour", "red", "unknown field"),
]
