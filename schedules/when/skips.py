"""The slots that a job skips: whole days, single slots, and what its calendars close."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from schedules.when.calendars import ClosedTimes
from schedules.when.durations import TICK
from schedules.when.triggers import load_zone

MAX_SKIPS = 100
# Past entries stay for a while, because their slots may not have been claimed yet.
_KEEP_FOR = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Skips:
    """The days ("2026-12-24") and slots ("2026-12-24T08:00:00Z") that a job skips, in its zone."""

    entries: frozenset[str]
    timezone: str
    closed: ClosedTimes | None = None

    def reason(self, slot: datetime) -> str:
        """Return why a slot is skipped, or an empty text if it runs."""
        day = self._day_of(slot).isoformat()
        if day in self.entries:
            return f"{day} is skipped in this schedule."
        if slot_entry(slot) in self.entries:
            return "This run was skipped."
        return self.closed.reason(slot) if self.closed else ""

    def is_entered(self, slot: datetime) -> bool:
        """Return whether a slot or its day is skipped explicitly, whatever the calendars say."""
        return self._day_of(slot).isoformat() in self.entries or slot_entry(slot) in self.entries

    def last_moment(self, slot: datetime) -> datetime:
        """Return the end of the skipped time around a skipped slot."""
        day = self._day_of(slot)
        if day.isoformat() not in self.entries:
            return self.closed.last_moment(slot) if self.closed else slot
        following = datetime.combine(day + timedelta(days=1), time(), load_zone(self.timezone))
        return max(slot, following.astimezone(UTC) - TICK)

    def _day_of(self, slot: datetime) -> date:
        return slot.astimezone(load_zone(self.timezone)).date()


def slot_entry(slot: datetime) -> str:
    """Return the entry of a single slot."""
    return slot.astimezone(UTC).isoformat().replace("+00:00", "Z")


def day_of(entry: str, timezone: str) -> str:
    """Return the day of an entry in a zone."""
    return entry if len(entry) == 10 else str(_moment(entry).astimezone(load_zone(timezone)).date())


def still_ahead(entries: Iterable[str], now: datetime) -> list[str]:
    """Return the entries that can still match a slot, in order."""
    return sorted({entry for entry in entries if _moment(entry) > now - _KEEP_FOR})


def _moment(entry: str) -> datetime:
    moment = datetime.fromisoformat(entry)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
