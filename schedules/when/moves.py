"""Moves: the slots of another trigger, those at closed moments moved to the next or the previous open one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from schedules.when.calendars import FARTHEST_MOVE, NEXT, Closed
from schedules.when.durations import TICK
from schedules.when.spread import Spread
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Slots, Trigger
from schedules.when.unplanned import Unplanned

# Runs more frequent than this are skipped, not moved: thousands of them would come together.
MAX_MOVED_PER_DAY = 24
_LONGEST_DAY = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Moved(Slots):
    """The slots of another trigger as calendars move them; those that move to the same moment are one."""

    base: Interval | CalendarInterval | Cron | Spread
    closed: Closed

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, or None at the calendar's end."""
        earliest: datetime | None = None
        is_next = self.closed.move == NEXT
        slot = self.base.next_after(self.closed.last_open_before_day_of(moment) if is_next else moment)
        while slot is not None and (earliest is None or slot < self._last_for(earliest)):
            target = self.closed.moved(slot)
            if target > moment and (earliest is None or target < earliest):
                earliest = target
            slot = self.base.next_after(slot)
        return earliest

    def _last_for(self, target: datetime) -> datetime:
        """Return the moment from which on no slot of the base moves to before this one."""
        return target if self.closed.move == NEXT else self.closed.first_open_after_day_of(target)

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        latest: datetime | None = None
        is_next = self.closed.move == NEXT
        earliest = not_before - FARTHEST_MOVE - _LONGEST_DAY
        slot = self.base.latest_at_or_before(
            moment if is_next else self.closed.first_open_after_day_of(moment), earliest
        )
        while slot is not None and (latest is None or slot > self._first_for(latest)):
            target = self.closed.moved(slot)
            if target <= moment and (latest is None or target > latest):
                latest = target
            slot = self.base.latest_at_or_before(slot - TICK, earliest)
        return latest if latest and latest >= not_before else None

    def _first_for(self, target: datetime) -> datetime:
        """Return the moment up to which no slot of the base moves to after this one."""
        return self.closed.last_open_before_day_of(target) if self.closed.move == NEXT else target

    def of(self, slots: Iterable[datetime]) -> list[datetime]:
        """Return where these slots of the base go, in order."""
        return sorted({self.closed.moved(slot) for slot in slots})

    def words(self) -> str:
        """Describe the schedule that is moved; the words of its calendars come after it."""
        return self.base.words()

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        return self.base.warnings(after)


JobTrigger: TypeAlias = Trigger | Spread | Moved


def moved_by(trigger: JobTrigger, closed: Closed | None) -> JobTrigger:
    """Move the slots of a trigger if its job has calendars and moves runs at closed moments."""
    if closed is None or not closed.move or isinstance(trigger, Once | Unplanned | Moved):
        return trigger
    return Moved(trigger, closed)
