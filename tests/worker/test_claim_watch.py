"""The watch that notes when a claim loop could not claim."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.engine.interruptions import ASLEEP, BUSY, SLOW, STALLED
from schedules.worker.claim_watch import MOST, ClaimWatch
from schedules.worker.context import Clock

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


class ManualClock(Clock):
    """A clock that a test moves."""

    wall, tick = NOW, 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.tick

    def advance(self, seconds: float, *, wall: float = 0.0) -> None:
        self.tick += seconds
        self.wall += timedelta(seconds=seconds + wall)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock) -> ClaimWatch:
    return ClaimWatch(clock)


def noted(watch: ClaimWatch) -> list[tuple[float, float, str]]:
    return [
        ((item.since - NOW).total_seconds(), (item.until - NOW).total_seconds(), item.reason)
        for item in watch.interruptions()
    ]


def test_interruption_lasts_from_the_last_good_look_to_the_next(watch, clock):
    clock.advance(0.1)
    watch.begin()
    watch.could_claim()
    for _ in range(5):
        clock.advance(2)
        watch.could_not_claim("The database was locked.")
    assert noted(watch) == [(0.1, 10.1, "The database was locked.")]

    clock.advance(1)
    watch.begin()
    watch.could_claim()
    clock.advance(0.1)
    watch.could_claim()

    assert noted(watch) == [(0.1, 11.1, "The database was locked.")]


def test_short_moments_are_not_noted(watch, clock):
    for _ in range(100):
        clock.advance(0.2)
        watch.begin()
        watch.could_not_claim(BUSY)
        clock.advance(0.2)
        watch.begin()
        watch.could_claim()

    assert noted(watch) == []


@pytest.mark.parametrize(("is_inside_the_look", "reason"), [(True, SLOW), (False, STALLED)])
def test_time_spent_inside_a_look_is_told_from_time_between_looks(watch, clock, is_inside_the_look, reason):
    if is_inside_the_look:
        watch.begin()
        clock.advance(5)
    else:
        clock.advance(5)
        watch.begin()
    watch.could_claim()

    assert noted(watch) == [(0, 5, reason)]


def test_reason_is_known_while_the_interruption_lasts(watch, clock):
    clock.advance(5)
    watch.begin()

    assert noted(watch) == [(0, 5, STALLED)]


def test_clock_that_ran_ahead_of_the_steady_one_is_named(watch, clock):
    clock.advance(0.1, wall=3600)
    watch.begin()
    assert noted(watch) == [(0, 3600.1, ASLEEP)]

    watch.could_claim()
    assert noted(watch) == [(0, 3600.1, ASLEEP)]


def test_periods_that_follow_each_other_are_one_and_old_ones_are_forgotten(watch, clock):
    for _ in range(3):
        watch.could_not_claim(BUSY)
        clock.advance(1)
        watch.could_claim()
    assert noted(watch) == [(0, 3, BUSY)]

    for _ in range(2 * MOST):
        clock.advance(0.5)
        watch.could_claim()
        clock.advance(0.5)
        watch.could_claim()
        watch.could_not_claim(BUSY)
        clock.advance(1)
        watch.could_claim()

    assert len(noted(watch)) == MOST


def test_plain_functions_are_interrupted_only_while_some_wait_for_a_permit(clock):
    watch = ClaimWatch(clock, "plain")
    clock.advance(3600)
    watch.could_claim()
    assert noted(watch) == []

    watch.could_not_claim(BUSY)
    clock.advance(5)
    watch.could_claim()
    assert noted(watch) == [(3600, 3605, BUSY)]
