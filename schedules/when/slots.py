"""The base classes of triggers, and the error for an invalid one."""

from abc import ABC, abstractmethod
from datetime import datetime


class TriggerError(ValueError):
    """An invalid trigger: `field` names the invalid part, and the text says how to correct it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class Slots(ABC):
    """The base of all triggers: what can be derived from `next_after`."""

    __slots__ = ()

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, in UTC, or None if there is none."""

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """Return the next slots, fewer than count if the trigger ends."""
        slots: list[datetime] = []
        slot = self.next_after(after)
        while slot is not None and len(slots) < count:
            slots.append(slot)
            slot = self.next_after(slot)
        return slots

    def count_between(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the slots later than after and not later than until, up to the limit."""
        count = 0
        slot = self.next_after(after)
        while slot is not None and slot <= until and count < limit:
            count += 1
            slot = self.next_after(slot)
        return count


class NumberedSlots(Slots):
    """The base of triggers whose slots are counted from a start."""

    __slots__ = ()

    @abstractmethod
    def _slot(self, number: int) -> datetime:
        """Return a slot by its number; raise OverflowError at the calendar's end."""

    @abstractmethod
    def _slots_until(self, moment: datetime) -> int:
        """Count the slots from the start to the moment, both included."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, or None at the calendar's end."""
        try:
            return self._slot(self._slots_until(moment))
        except OverflowError:
            return None

    def count_between(self, after: datetime, until: datetime, limit: int) -> int:
        """Count the slots later than after and not later than until, up to the limit."""
        return max(0, min(self._slots_until(until) - self._slots_until(after), limit))

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        number = self._slots_until(moment)
        slot = self._slot(number - 1) if number else None
        return slot if slot is not None and slot >= not_before else None
