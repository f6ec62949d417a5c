"""Days and hours of the calendar, with what ran, what failed and what is planned; rare events come first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from django.urls import reverse

from schedules import engine
from schedules.services.runs.outcomes import Failures, Outcomes, read_outcomes
from schedules.templatetags.cronty_times import clock_words
from schedules.web.views.forecast import days_of, runs_of, soonest
from schedules.web.views.page import Page
from schedules.when.forecast import start_of_day
from schedules.when.zones import clock_changes

# A job that runs several times a day, or on this many days a week, is routine, and would hide rare events.
ROUTINE_DAYS = 5
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
# In the view of a day, a job with at least this many runs is shown once, as running all day.
ALL_DAY_RUNS = 24


@dataclass
class Planned:
    """The planned runs of one job in one day or hour."""

    job: Any
    first: datetime
    count: int = 0
    held: str = ""
    """Until when quiet hours hold the message of the first run."""


@dataclass
class Day:
    """One day of the month or week; `planned` holds the rare runs, and `routine` those that are only counted."""

    date: date
    is_other: bool = False
    is_today: bool = False
    is_earlier: bool = False
    """Whether it is before today, in a period that includes today."""
    past: Outcomes = field(default_factory=Outcomes)
    planned: list[Planned] = field(default_factory=list)
    routine: list[Planned] = field(default_factory=list)
    max_shown: int = 3

    @property
    def css_classes(self) -> str:
        classes = {
            "other": self.is_other,
            "today": self.is_today,
            "earlier": self.is_earlier,
            "none": self.is_empty,
        }
        return " ".join(name for name, applies in classes.items() if applies)

    @property
    def count(self) -> int:
        return sum(each.count for each in (*self.planned, *self.routine))

    @property
    def failed(self) -> list[Failures]:
        return self.past.failed[: self.max_shown]

    @property
    def shown(self) -> list[Planned]:
        return self.planned[: max(1, self.max_shown - len(self.failed))]

    @property
    def hidden(self) -> int:
        return len(self.planned) - len(self.shown) + len(self.past.failed) - len(self.failed)

    @property
    def runs(self) -> str:
        """The URL of the list of runs on this day."""
        following = self.date + timedelta(days=1)
        return reverse("schedules:runs", query={"since": str(self.date), "until": str(following)})

    @property
    def is_empty(self) -> bool:
        return not (self.planned or self.routine or self.past)


@dataclass
class Hour:
    """One hour of a day in local time; `note` tells of a clock change in it."""

    start: datetime
    label: str
    note: str = ""
    past: Outcomes = field(default_factory=Outcomes)
    planned: list[Planned] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.planned or self.past or self.note)

    @property
    def runs(self) -> str:
        """The URL of the list of runs in this hour."""
        query = {"since": _moment(self.start), "until": _moment(self.start + HOUR)}
        return reverse("schedules:runs", query=query)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def days_between(page: Page, first: date, last: date) -> dict[date, Day]:
    """Return each day with its past runs and its planned runs, in the user's zone."""
    dates = [first + timedelta(days=offset) for offset in range((last - first).days + 2)]
    starts = [datetime.combine(day, time(), ZoneInfo(page.zone)) for day in dates]
    days = {day: Day(day) for day in dates[:-1]}
    _add_past_runs(page, [*days.values()], starts)
    if starts[-1] > page.now:
        _add_planned_runs(page, days, max(starts[0], page.now), starts[-1])
    return days


def _add_past_runs(page: Page, squares: Sequence["Day | Hour"], starts: Sequence[datetime]) -> None:
    """Set the outcomes of squares that have begun; `starts` has one more moment, at which the last one ends."""
    begun = [(start, min(end, page.now)) for start, end in pairwise(starts) if start < page.now]
    if begun:
        for square, outcome in zip(squares, read_outcomes(page.actor, begun), strict=False):
            square.past = outcome


def _add_planned_runs(page: Page, days: dict[date, Day], start: datetime, end: datetime) -> None:
    # Extend the period to whole weeks, to tell how often a job runs.
    weeks = -((start - end) // WEEK)
    until = start + weeks * WEEK
    for job in soonest(page.actor.jobs(), end):
        runs_by_day = days_of(job, page.now, until, page.zone, start=start)
        is_routine = is_frequent(runs_by_day.values(), weeks)
        for day, (first, count) in runs_by_day.items():
            if day in days:
                square = days[day]
                (square.routine if is_routine else square.planned).append(Planned(job, first, count))
    for square in days.values():
        square.planned.sort(key=lambda each: each.first)
    _add_held(page, [each for square in days.values() for each in (*square.planned, *square.routine)])


def _add_held(page: Page, planned: Sequence[Planned]) -> None:
    quiet = engine.quiet_hours_ahead(each.job for each in planned)
    for each in planned:
        if hours := quiet.get(each.job.pk):
            each.held = hours.held_words(each.first, page.zone)


def is_frequent(days: Iterable[tuple[datetime, int]], weeks: int) -> bool:
    """Return whether a job with these runs per day, in this many weeks, is routine."""
    counts = [count for _, count in days]
    return max(counts, default=0) > 1 or (len(counts) > 1 and len(counts) >= ROUTINE_DAYS * weeks)


def hours_of(page: Page, day: date) -> tuple[list[Hour], list[Planned]]:
    """Return the hours of a day, and the jobs that run all day long."""
    start, end = start_of_day(day, page.zone), start_of_day(day + timedelta(days=1), page.zone)
    hours = _empty_hours(start, end, ZoneInfo(page.zone))
    _add_past_runs(page, hours, [*(hour.start for hour in hours), end])
    all_day: list[Planned] = []
    if end > page.now:
        for job in soonest(page.actor.jobs(), end):
            by_hour = _runs_by_hour(job, page.now, max(start, page.now), start, end)
            count = sum(planned.count for planned in by_hour.values())
            if count >= ALL_DAY_RUNS:
                all_day.append(Planned(job, next(iter(by_hour.values())).first, count))
                continue
            for index, planned in by_hour.items():
                hours[min(index, len(hours) - 1)].planned.append(planned)
    for hour in hours:
        hour.planned.sort(key=lambda each: (each.first, each.job.name))
    _add_held(page, [*(each for hour in hours for each in hour.planned), *all_day])
    return hours, sorted(all_day, key=lambda each: each.job.name)


def _empty_hours(start: datetime, end: datetime, zone: ZoneInfo) -> list[Hour]:
    changes = list(clock_changes(zone, start, end))
    hours = []
    moment = start
    while moment < end:
        note = ""
        for change in changes:
            if moment <= change.at < moment + HOUR:
                direction = "forward" if change.is_forward else "back"
                note = f"Clocks go {direction}: {clock_words(change.old)} becomes {clock_words(change.new)}"
        hours.append(Hour(moment, clock_words(moment.astimezone(zone)), note))
        moment += HOUR
    return hours


def _runs_by_hour(
    job: Any, now: datetime, since: datetime, start: datetime, end: datetime
) -> dict[int, Planned]:
    """Return a job's runs in each hour that has any, by the number of the hour since `start`."""
    by_hour: dict[int, Planned] = {}
    for batch in runs_of(job, now, end, start=since):
        rest = batch
        while rest:
            index = (rest.first - start) // HOUR
            inside, rest = rest.split(start + (index + 1) * HOUR)
            planned = by_hour.setdefault(index, Planned(job, inside.first))
            planned.count += len(inside)
    return by_hour
