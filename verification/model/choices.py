"""Hypothesis strategies: schedules, policies and time steps of a sequence."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from verification.model import model
from verification.model.slots import Cron, Interval, Once, Schedule

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

# The noon before each clock change in Berlin, and an ordinary morning.
STARTS = [
    datetime(2026, 3, 28, 12, 0, tzinfo=UTC),
    datetime(2026, 10, 24, 12, 0, tzinfo=UTC),
    datetime(2026, 2, 4, 9, 0, 0, 500, tzinfo=UTC),
]
CRONS = [
    "*/15 * * * *",
    "0 * * * *",
    "30 */2 * * *",
    "30 2 * * *",
    "15,45 1-3 * * *",
    "0 9 * * 1-5",
]
LENGTHS = st.sampled_from(
    [SECOND, 9 * SECOND, 11 * SECOND, 40 * SECOND, MINUTE, 10 * MINUTE, HOUR, 5 * HOUR, DAY]
) | st.integers(0, 3 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
# How late a cluster claims a slot: a minute still counts as on time.
LATE = st.sampled_from([0 * SECOND, SECOND, MINUTE, MINUTE + model.TICK, 7 * HOUR, -model.TICK])
ENDINGS = ["succeeded", "failed", "claimed", "running"]
# Durations from now, so that most moments are in the future.
AHEAD = st.sampled_from([HOUR, 5 * MINUTE, 6 * HOUR, DAY, 2 * DAY, SECOND, -HOUR])


@dataclass(frozen=True)
class When:
    """A schedule relative to now."""

    kind: type[Schedule]
    ahead: timedelta = HOUR
    every: timedelta = HOUR
    expression: str = ""
    zone: str = "UTC"

    def at(self, now: datetime, old: Schedule | None = None) -> Schedule:
        if self.kind is Once:
            return Once(now + self.ahead)
        if self.kind is Cron:
            return Cron(self.expression, self.zone)
        if isinstance(old, Interval) and old.every == self.every:
            return old
        return Interval(self.every, now + self.every)


WHEN = st.one_of(
    st.builds(When, st.just(Once), ahead=AHEAD),
    st.builds(
        When,
        st.just(Interval),
        every=st.sampled_from([40 * SECOND, 7 * MINUTE, HOUR, 5 * HOUR, DAY]),
    ),
    st.builds(
        When,
        st.just(Cron),
        expression=st.sampled_from(CRONS),
        zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    ),
)
POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "overlap": st.sampled_from(["skip", "queue", "allow"]),
    "catch_up": st.sampled_from(["once", "all", "none"]),
    "max_runs": st.none() | st.integers(1, 4),
    "attempts": st.integers(1, 3),
    "backoff": st.sampled_from([timedelta(0), 10 * SECOND, 40 * MINUTE]),
    "pause_after_failures": st.integers(0, 3),
    "at_most_once": st.booleans(),
    "label": st.sampled_from(["", "home"]),
}
ENDS = st.none() | AHEAD
NEW_JOB: dict[str, st.SearchStrategy[Any]] = {
    "when": WHEN,
    "ends_in": ENDS,
    "paused": st.sampled_from([False, False, False, True]),
    "policies": st.fixed_dictionaries(POLICIES),
}


def columns_of(terms: model.Terms) -> dict[str, Any]:
    """Return the terms as service arguments; the service chooses the grid of an interval."""
    schedule = terms.schedule
    when: dict[str, Any] = {"run_at": None, "every": None, "cron": "", "timezone": "UTC"}
    match schedule:
        case Once():
            when |= {"trigger_type": "once", "run_at": schedule.at}
        case Interval():
            when |= {"trigger_type": "interval", "every": schedule.every}
        case Cron():
            when |= {"trigger_type": "cron", "cron": schedule.expression, "timezone": schedule.zone}
    policies = {name: getattr(terms, name) for name in (*POLICIES, "ends_at")}
    return when | policies
