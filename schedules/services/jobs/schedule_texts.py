"""Schedules as text, with their end and exceptions: what they mean for a job, wherever one can be written."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from schedules.models import Job
from schedules.models.triggers import columns_of
from schedules.services.people.holidays import calendar_titles
from schedules.when.clauses import Plan, named_calendars, parse_plan
from schedules.when.triggers import CalendarInterval, Interval, Trigger


@dataclass(frozen=True, slots=True)
class ScheduleText:
    """What a text means: when a job runs, its end, and what it leaves out."""

    trigger: Trigger
    ends_at: datetime | None = None
    skipped_days: tuple[date, ...] = ()
    calendars: tuple[str, ...] = ()
    spread: timedelta = timedelta(0)

    @property
    def has_clauses(self) -> bool:
        """Whether the text says more than when the job runs."""
        return bool(self.ends_at or self.skipped_days or self.calendars or self.spread)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that the text sets; an interval keeps the start that the text names."""
        columns = columns_of(self.trigger)
        if isinstance(self.trigger, Interval | CalendarInterval):
            columns["anchor_at"] = self.trigger.start
        if self.ends_at:
            columns["ends_at"] = self.ends_at
        if self.spread:
            columns["spread"] = self.spread
        if self.calendars:
            columns |= {"calendars": list(self.calendars), "on_closed": Job.OnClosed.SKIP.value}
        return columns

    @property
    def fields(self) -> dict[str, Any]:
        """The columns and the skipped days, as services take them."""
        return self.columns | ({"skipped_days": self.skipped_days} if self.skipped_days else {})


def read_schedule(text: str, *, owner_id: int, now: datetime, timezone: str) -> ScheduleText:
    """Read a schedule with its end and exceptions for a job of this owner; raises PhraseError and TriggerError."""
    plan = parse_plan(text, now=now, timezone=timezone)
    return schedule_of(plan, calendar_titles(owner_id) if plan.calendars else {})


def schedule_of(plan: Plan, titles: Mapping[str, str]) -> ScheduleText:
    """Find the calendars that a plan names; `titles` has all of the owner by name. Raises PhraseError."""
    calendars = tuple(named_calendars(plan.calendars, titles))
    return ScheduleText(plan.trigger, plan.ends_at, plan.skipped_days, calendars, plan.spread)
