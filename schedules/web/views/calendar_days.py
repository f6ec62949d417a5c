"""Days and hours of the calendar: what ran, what failed, and what is planned; rare events come first."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.urls import reverse

from schedules.models import Execution
from schedules.templatetags.cronty_times import clock_words
from schedules.web.views.forecast import days_of, runs_of, soonest
from schedules.web.views.page import Page
from schedules.when.forecast import start_of_day
from schedules.when.zones import clock_changes

# The most runs that one page counts, shared by the days or hours that it shows.
COUNTED_RUNS = 3_000
FAILURES = (Execution.Status.FAILED, Execution.Status.LOST, Execution.Status.MISSED)
# A job that runs several times a day, or on this many days a week, is routine: it would hide the rare ones.
ROUTINE_DAYS = 5
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
# In the view of a day, a job that runs hourly or more often is shown once.
ALL_DAY = 24


@dataclass
class Planned:
    """One job in one day or hour."""

    job: Any
    first: datetime
    count: int = 0


@dataclass
class Failed:
    """The failures of one job in one day or hour, with the newest run."""

    name: str
    run_id: int
    count: int = 0


@dataclass
class Past:
    """What has run in a period: numbers, and the names of what failed."""

    good: int = 0
    bad: int = 0
    _failed: dict[str, Failed] = field(default_factory=dict)

    @property
    def failed(self) -> list[Failed]:
        return list(self._failed.values())

    def add(self, status: str, name: str, run_id: int) -> None:
        if status == Execution.Status.SUCCEEDED:
            self.good += 1
        elif status in FAILURES:
            self.bad += 1
            self._failed.setdefault(name, Failed(name, run_id)).count += 1


@dataclass
class Day:
    """One day of the month or week; `planned` are the rare events, and routine jobs are counted."""

    date: date
    is_other: bool = False
    is_today: bool = False
    past: Past = field(default_factory=Past)
    planned: list[Planned] = field(default_factory=list)
    routine: list[Planned] = field(default_factory=list)
    most: int = 3
    counted: int | None = None
    """How many of the newest runs are counted, if there are more."""

    @property
    def count(self) -> int:
        return sum(each.count for each in (*self.planned, *self.routine))

    @property
    def failed(self) -> list[Failed]:
        return self.past.failed[: self.most]

    @property
    def shown(self) -> list[Planned]:
        return self.planned[: max(1, self.most - len(self.failed))]

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
        return not (self.planned or self.routine or self.past.good or self.past.bad)


@dataclass
class Hour:
    """One hour of a day, as clocks show it; `note` tells that clocks change when it begins."""

    start: datetime
    label: str
    note: str = ""
    past: Past = field(default_factory=Past)
    planned: list[Planned] = field(default_factory=list)
    counted: int | None = None
    """How many of the newest runs are counted, if there are more."""

    @property
    def is_empty(self) -> bool:
        return not (self.planned or self.past.good or self.past.bad or self.note)

    @property
    def runs(self) -> str:
        """The URL of the list of runs in this hour."""
        query = {"since": _moment(self.start), "until": _moment(self.start + HOUR)}
        return reverse("schedules:runs", query=query)


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def days_between(page: Page, first: date, last: date) -> dict[date, Day]:
    """Return each day with its past runs and its planned runs, in the user's zone."""
    zone = ZoneInfo(page.zone)
    start = datetime.combine(first, time(), zone)
    end = datetime.combine(last + timedelta(days=1), time(), zone)
    days = {
        first + timedelta(days=place): Day(first + timedelta(days=place))
        for place in range((last - first).days + 1)
    }
    if start < page.now:
        _add_past_runs(page, days, start, min(end, page.now), zone)
    if end > page.now:
        _add_planned_runs(page, days, max(start, page.now), end)
    return days


def _add_past_runs(page: Page, days: dict[date, Day], start: datetime, end: datetime, zone: ZoneInfo) -> None:
    """Count the outcomes of past runs per day; of a busy day, those of its newest runs."""
    past = [day for day in days.values() if datetime.combine(day.date, time(), zone) < end]
    most = COUNTED_RUNS // len(past)
    for day in past:
        first = max(start, datetime.combine(day.date, time(), zone))
        last = min(end, datetime.combine(day.date + timedelta(days=1), time(), zone))
        _add_newest(page, day, first, last, most)


def _add_newest(page: Page, square: Day | Hour, start: datetime, end: datetime, most: int) -> None:
    found = _newest(page, start, end, most + 1)
    square.counted = most if len(found) > most else None
    for _, status, name, run_id in found[:most]:
        square.past.add(status, name, run_id)


def _newest(page: Page, start: datetime, end: datetime, most: int) -> list[tuple[datetime, str, str, int]]:
    runs = page.actor.executions().filter(scheduled_for__gte=start, scheduled_for__lt=end)
    newest = runs.order_by("-scheduled_for", "-pk")
    return list(newest.values_list("scheduled_for", "status", "job_name", "pk")[:most])


def _add_planned_runs(page: Page, days: dict[date, Day], start: datetime, end: datetime) -> None:
    # Whole weeks, which show how often a job runs.
    weeks = -((start - end) // WEEK)
    until = start + weeks * WEEK
    for job in soonest(page.actor.jobs(), end):
        found = days_of(job, page.now, until, page.zone, start=start)
        is_routine = is_frequent(found.values(), weeks)
        for day, (first, count) in found.items():
            if day in days:
                square = days[day]
                (square.routine if is_routine else square.planned).append(Planned(job, first, count))
    for square in days.values():
        square.planned.sort(key=lambda each: each.first)


def is_frequent(days: Iterable[tuple[datetime, int]], weeks: int) -> bool:
    """Return whether a job with these runs per day, in this many weeks, is routine."""
    counts = [count for _, count in days]
    return max(counts, default=0) > 1 or (len(counts) > 1 and len(counts) >= ROUTINE_DAYS * weeks)


def hours_of(page: Page, day: date) -> tuple[list[Hour], list[Planned]]:
    """Return the hours of a day, and the jobs that run all day long."""
    start, end = start_of_day(day, page.zone), start_of_day(day + timedelta(days=1), page.zone)
    hours = _empty_hours(start, end, ZoneInfo(page.zone))
    if start < page.now:
        _add_past_hours(page, hours, start, min(end, page.now))
    all_day: list[Planned] = []
    if end > page.now:
        for job in soonest(page.actor.jobs(), end):
            pieces = list(_pieces(job, page.now, max(start, page.now), start, end))
            count = sum(planned.count for _, planned in pieces)
            if count >= ALL_DAY:
                all_day.append(Planned(job, pieces[0][1].first, count))
                continue
            for place, planned in pieces:
                hours[min(place, len(hours) - 1)].planned.append(planned)
    for hour in hours:
        hour.planned.sort(key=lambda each: (each.first, each.job.name))
    return hours, sorted(all_day, key=lambda each: each.job.name)


def _add_past_hours(page: Page, hours: list[Hour], start: datetime, end: datetime) -> None:
    """Count the outcomes of past runs per hour; of a busy day, those of the newest runs of each hour."""
    found = _newest(page, start, end, COUNTED_RUNS + 1)
    if len(found) <= COUNTED_RUNS:
        for scheduled_for, status, name, run_id in found:
            hours[(scheduled_for - start) // HOUR].past.add(status, name, run_id)
        return
    past = [hour for hour in hours if hour.start < end]
    for hour in past:
        _add_newest(page, hour, hour.start, min(hour.start + HOUR, end), COUNTED_RUNS // len(past))


def _empty_hours(start: datetime, end: datetime, zone: ZoneInfo) -> list[Hour]:
    changes = list(clock_changes(zone, start, end))
    hours = []
    moment = start
    while moment < end:
        here = moment.astimezone(zone)
        note = ""
        for change in changes:
            if moment <= change.at < moment + HOUR:
                way = "forward" if change.is_forward else "back"
                note = f"Clocks go {way}: {clock_words(change.old)} becomes {clock_words(change.new)}"
        hours.append(Hour(moment, clock_words(here), note))
        moment += HOUR
    return hours


def _pieces(
    job: Any, now: datetime, since: datetime, start: datetime, end: datetime
) -> Iterable[tuple[int, Planned]]:
    """Yield a job's runs of each hour, as (place of the hour, runs)."""
    found: dict[int, Planned] = {}
    for batch in runs_of(job, now, end, start=since):
        rest = batch
        while rest:
            place = (rest.first - start) // HOUR
            inside, rest = rest.split(start + (place + 1) * HOUR)
            known = found.setdefault(place, Planned(job, inside.first))
            known.count += len(inside)
    return found.items()
