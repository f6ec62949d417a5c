"""The next slot: when something is due, and how long before that its claim begins.

A claim begins before its slot and is committed at the slot, so that it delays nothing. Until then its jobs are locked:
whatever changes them is committed either before the claim reads them or after the slot.
"""

import math
from datetime import UTC, datetime

from schedules import engine
from schedules.worker.context import Clock

# A claim begins this many seconds before its slot, and earlier by so much for each job that is due then.
HEAD_START = 0.005
HEAD_START_PER_JOB = 0.0001
# The most that a claim takes before its slot: more than later, because no worker waits for it.
BATCH_AHEAD = 1000
# How many seconds before a slot its jobs are counted: two looks of the claim loop, 0.1 s apart, before the earliest claim.
COUNT_BEFORE = HEAD_START + BATCH_AHEAD * HEAD_START_PER_JOB + 0.2
# For how many seconds after a claim no other one begins early, and nothing is counted or tidied: workers start its runs
# and need the database and the processor.
QUIET_AFTER = 0.02


class NextSlot:
    """What a claim loop knows about the next slot; before its first look, that it is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = 0.0
        self._jobs = 0
        self._claimed_at = 0.0

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self._at, UTC)

    def expect(self, at: datetime | None) -> None:
        """Set when something is due next; None means never."""
        timestamp = at.timestamp() if at else math.inf
        if timestamp != self._at:
            self._at, self._jobs = timestamp, 0

    def count_jobs(self) -> None:
        """Count its jobs shortly before it, unless workers start runs or there is no time for a longer head start."""
        if self.until_quiet() <= 0 and QUIET_AFTER < self.until_due() < COUNT_BEFORE:
            self._jobs = engine.count_due(self.at, BATCH_AHEAD)

    def note_claim(self) -> None:
        """Note that runs were claimed, which workers start now."""
        self._claimed_at = self._clock.monotonic()

    def until_due(self) -> float:
        """Return in how many seconds something is due."""
        return self._at - self._clock.now().timestamp()

    def until_claim(self) -> float:
        """Return in how many seconds to claim what is due next."""
        until_due = self.until_due()
        return min(until_due, max(until_due - self._head_start, self.until_quiet()))

    def until_quiet(self) -> float:
        """Return in how many seconds workers will have had time to start the runs of the last claim."""
        return self._claimed_at + QUIET_AFTER - self._clock.monotonic()

    def is_ahead(self) -> bool:
        """Return whether a claim that begins now can be committed at the slot."""
        return 0 < self.until_due() <= self._head_start

    def sleep_until_due(self) -> None:
        # No longer than that: somebody may set the clock back.
        self._clock.sleep(min(max(self.until_due(), 0), self._head_start))

    @property
    def _head_start(self) -> float:
        return HEAD_START + self._jobs * HEAD_START_PER_JOB
