"""Outcomes of runs by period: count the successes, and list the failures by job."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Case, Count, Max, Q, Value, When

from schedules.models import Execution
from schedules.models.counting import count_up_to
from schedules.models.executions import ExecutionQuerySet
from schedules.services.permissions import Actor
from schedules.services.run_list import NEWEST_FIRST

# How many runs one call scans for successes, shared among its periods.
COUNTED_RUNS = 60_000
# How many failures of each status one call reads. They are read separately, so that other runs cannot crowd them out.
READ_FAILURES = 50_000
IS_GOOD = Q(status=Execution.Status.SUCCEEDED)
FAILURES = (Execution.Status.FAILED, Execution.Status.LOST, Execution.Status.MISSED)


@dataclass(slots=True)
class Failures:
    """The failures of one job in one period, with the newest run."""

    name: str
    count: int = 0
    newest_run: int = 0


@dataclass
class Outcomes:
    """The outcomes of the runs that were due in a period."""

    good: int = 0
    is_good_cut: bool = False
    """Whether there are more successes than were counted."""
    failures: dict[str, Failures] = field(default_factory=dict)
    """By the name of the job."""
    is_bad_cut: bool = False
    """Whether there are more failures than were read."""

    def __bool__(self) -> bool:
        return bool(self.good or self.failures or self.is_bad_cut)

    @property
    def bad(self) -> int:
        return sum(each.count for each in self.failures.values())

    @property
    def failed(self) -> list[Failures]:
        """The failed jobs, fewest failures first, so that a nightly job comes before one that runs every minute."""
        return sorted(self.failures.values(), key=lambda each: (each.count, -each.newest_run))


def read_outcomes(actor: Actor, periods: Sequence[tuple[datetime, datetime]]) -> list[Outcomes]:
    """Return the outcomes of each of these consecutive periods."""
    outcomes = [Outcomes() for _ in periods]
    all_runs = actor.executions().order_by(*NEWEST_FIRST)
    runs = _due_within(all_runs, periods[0][0], periods[-1][1])
    # Newest first, so that each period needs only one comparison.
    newest_first = [*enumerate(periods)][::-1]
    place = Case(*(When(scheduled_for__gte=start, then=Value(number)) for number, (start, _) in newest_first))
    if count_up_to(runs, COUNTED_RUNS) <= COUNTED_RUNS:
        for number, count in runs.filter(IS_GOOD).order_by().values_list(place).annotate(Count("pk")):
            outcomes[number].good = count
    else:
        _count_newest(all_runs, periods, outcomes)
    for status in FAILURES:
        _add_failures(runs.indexed_for(status), periods, outcomes, place)
    return outcomes


def _due_within(runs: ExecutionQuerySet, start: datetime, end: datetime) -> ExecutionQuerySet:
    return runs.filter(scheduled_for__gte=start, scheduled_for__lt=end)


def _count_newest(
    all_runs: ExecutionQuerySet, periods: Sequence[tuple[datetime, datetime]], outcomes: Sequence[Outcomes]
) -> None:
    """Count the successes among the newest runs of each period."""
    limit = COUNTED_RUNS // len(periods)
    for (start, end), outcome in zip(periods, outcomes, strict=True):
        # From all runs: with the bounds of all periods in the query, SQLite would scan all later periods first.
        newest = _due_within(all_runs, start, end)[: limit + 1]
        counts = newest.aggregate(all=Count("pk"), good=Count("pk", filter=IS_GOOD))
        outcome.good = min(counts["good"], limit)
        outcome.is_good_cut = counts["all"] > limit


def _add_failures(
    failures: ExecutionQuerySet,
    periods: Sequence[tuple[datetime, datetime]],
    outcomes: Sequence[Outcomes],
    place: Case,
) -> None:
    """Add the failures of one status, one entry per job and period."""
    rows = failures
    [*cut] = failures.values_list("scheduled_for", flat=True)[READ_FAILURES : READ_FAILURES + 1]
    if cut:
        rows = failures.filter(scheduled_for__gt=cut[0])
        for (start, _), outcome in zip(periods, outcomes, strict=True):
            outcome.is_bad_cut |= start <= cut[0]
    groups = rows.order_by().values_list(place, "job_name").annotate(Count("pk"), Max("pk"))
    for number, name, count, newest_run in groups:
        failed = outcomes[number].failures.setdefault(name, Failures(name))
        failed.count += count
        failed.newest_run = max(failed.newest_run, newest_run)
