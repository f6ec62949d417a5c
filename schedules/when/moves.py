"""The trigger of a job whose runs at closed moments move to the next or the previous open one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from schedules.when.calendars import FARTHEST_MOVE, NEXT, ClosedTimes
from schedules.when.durations import TICK
from schedules.when.spread import Spread
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Slots, Trigger
from schedules.when.unplanned import Unplanned

# More frequent runs are skipped, not moved: thousands of them would pile up at one moment.
MAX_MOVED_PER_DAY = 24
_LONGEST_DAY = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Moved(Slots):
    """The slots of another trigger as calendars move them; slots that move to the same moment become one."""

    base: Interval | CalendarInterval | Cron | Spread
    closed: ClosedTimes

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first slot later than the moment, or None at the calendar's end."""
        earliest: datetime | None = None
        is_next = self.closed.move == NEXT
        slot = self.base.next_after(self.closed.last_open_before_day_of(moment) if is_next else moment)
        while slot is not None and (earliest is None or slot < self._base_bound_above(earliest)):
            target = self.closed.moved(slot)
            if target > moment and (earliest is None or target < earliest):
                earliest = target
            slot = self.base.next_after(slot)
        return earliest

    def _base_bound_above(self, target: datetime) -> datetime:
        """Return the moment from which no slot of the base moves to before the target."""
        return target if self.closed.move == NEXT else self.closed.first_open_after_day_of(target)

    def latest_at_or_before(self, moment: datetime, not_before: datetime) -> datetime | None:
        """Return the newest slot between the two moments, ends included, or None."""
        latest: datetime | None = None
        is_next = self.closed.move == NEXT
        earliest = not_before - FARTHEST_MOVE - _LONGEST_DAY
        slot = self.base.latest_at_or_before(
            moment if is_next else self.closed.first_open_after_day_of(moment), earliest
        )
        while slot is not None and (latest is None or slot > self._base_bound_below(latest)):
            target = self.closed.moved(slot)
            if target <= moment and (latest is None or target > latest):
                latest = target
            slot = self.base.latest_at_or_before(slot - TICK, earliest)
        return latest if latest and latest >= not_before else None

    def _base_bound_below(self, target: datetime) -> datetime:
        """Return the moment up to which no slot of the base moves to after the target."""
        return self.closed.last_open_before_day_of(target) if self.closed.move == NEXT else target

    def of(self, slots: Iterable[datetime]) -> list[datetime]:
        """Return where these slots of the base move to, in order."""
        return sorted({self.closed.moved(slot) for slot in slots})

    def words(self) -> str:
        """Describe the base; the clause of the calendars follows it."""
        return self.base.words()

    def warnings(self, after: datetime | None = None) -> list[str]:
        """List warnings to show before it is saved."""
        return self.base.warnings(after)


JobTrigger: TypeAlias = Trigger | Spread | Moved


def moved_by(trigger: JobTrigger, closed: ClosedTimes | None) -> JobTrigger:
    """Move the slots of a trigger if its job has calendars and moves runs at closed moments."""
    if closed is None or not closed.move or isinstance(trigger, Once | Unplanned | Moved):
        return trigger
    return Moved(trigger, closed)
