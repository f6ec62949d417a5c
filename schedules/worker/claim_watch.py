"""The watch over a claim loop: it notes when the loop could not claim, and why."""

from datetime import datetime

from schedules.engine.interruptions import ASLEEP, BUSY, SLOW, STALLED, Interruption
from schedules.tasks.registry import Lane
from schedules.worker.context import Clock

# Shorter than the shortest interval of a job, so that every missed slot falls into a recorded interruption.
NOTED_AFTER = 0.5
MOST = 20


class ClaimWatch:
    """The recent interruptions of one claim loop; each lasts from the last look that could claim to the next one."""

    def __init__(self, clock: Clock, lane: str = "") -> None:
        self._clock = clock
        self._lane = lane
        self._recent: list[Interruption] = []
        self._free_at, self._free_tick = clock.now(), clock.monotonic()
        self._ended_tick = self._free_tick
        self._reason = ""

    def begin(self) -> None:
        """Note that a look begins; if the last one ended long ago, the process has stalled."""
        if self._clock.monotonic() - self._ended_tick > NOTED_AFTER:
            self._reason = self._reason or STALLED

    def could_not_claim(self, reason: str) -> None:
        self._reason = self._reason if self._reason not in ("", STALLED) else reason
        self._ended_tick = self._clock.monotonic()

    def could_claim(self) -> None:
        """Note that a look was able to claim everything that was due; this ends an interruption."""
        # A single lane is looked at only when one of its tasks is due, so a long gap means nothing there.
        if current := self._current("" if self._lane else SLOW):
            self._add(current)
        self._free_at, self._free_tick = self._clock.now(), self._clock.monotonic()
        self._ended_tick = self._free_tick
        self._reason = ""

    def note(self, *, is_busy: bool) -> None:
        """Note that a look could claim everything that was due, or that the workers were too busy for it."""
        if is_busy:
            self.could_not_claim(BUSY)
        else:
            self.could_claim()

    def interruptions(self) -> list[Interruption]:
        """Return the recent interruptions, and the current one."""
        current = self._current("")
        return [*self._recent, current] if current else list(self._recent)

    def _current(self, otherwise: str) -> Interruption | None:
        now, passed = self._clock.now(), self._clock.monotonic() - self._free_tick
        if (now - self._free_at).total_seconds() - passed > NOTED_AFTER:
            reason = ASLEEP
        elif passed > NOTED_AFTER:
            reason = self._reason or otherwise
        else:
            reason = ""
        return Interruption(self._free_at, now, reason, self._lane) if reason else None

    def _add(self, new: Interruption) -> None:
        last = self._recent[-1] if self._recent else None
        if last and last.reason == new.reason and _is_next(last.until, new.since):
            new = Interruption(last.since, new.until, new.reason, new.lane)
            self._recent.pop()
        self._recent = [*self._recent, new][-MOST:]


class ClaimWatches:
    """The watch over everything that a cluster claims, and one for each lane that may be full by itself."""

    def __init__(self, clock: Clock) -> None:
        self.all = ClaimWatch(clock)
        self.plain = ClaimWatch(clock, Lane.PLAIN)
        self.commands = ClaimWatch(clock, Lane.COMMAND)

    def interruptions(self) -> list[Interruption]:
        watches = (self.all, self.plain, self.commands)
        return [interruption for watch in watches for interruption in watch.interruptions()]


def _is_next(until: datetime, since: datetime) -> bool:
    return (since - until).total_seconds() < NOTED_AFTER
