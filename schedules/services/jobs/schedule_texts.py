"""Schedules as text, with their end and exceptions: what they mean for a job, wherever one can be written."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from schedules.models import Job
from schedules.models.triggers import columns_of as columns_of_trigger
from schedules.result import Err, Result, invalid
from schedules.services.jobs.validation import with_given
from schedules.services.people.holidays import calendar_titles
from schedules.spec.job import ScheduleSpec
from schedules.when.clauses import Plan, named_calendars, parse_plan
from schedules.when.phrases import PhraseError
from schedules.when.triggers import CalendarInterval, Interval, TriggerError


@dataclass(frozen=True, slots=True)
class ScheduleText(Plan):
    """What a text means for a job of an owner, who has the calendars that it names."""

    @property
    def has_clauses(self) -> bool:
        """Whether the text says more than when the job runs."""
        return bool(self.clauses or self.skipped_days)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that the text sets; an interval keeps the start that the text names."""
        columns = columns_of_trigger(self.trigger) | self.clauses
        if isinstance(self.trigger, Interval | CalendarInterval):
            columns["anchor_at"] = self.trigger.start
        if self.calendars:
            columns |= {"calendars": list(self.calendars), "on_closed": Job.OnClosed.SKIP.value}
        return columns

    @property
    def fields(self) -> dict[str, Any]:
        """The columns and the skipped days, as services take them."""
        return self.columns | ({"skipped_days": self.skipped_days} if self.skipped_days else {})


def columns_of(
    text: str | None, options: ScheduleSpec, *, owner_id: int, now: datetime, zone: str
) -> Result[dict[str, Any]]:
    """Return what options set, together with the text of a schedule if there is one; refuse what both say.

    Times are in this zone, unless the options name another; `timezone` is among the columns of a text.
    """
    given = options.columns(now=now, zone=zone)
    if isinstance(given, Err) or text is None:
        return given
    zone = given.value.get("timezone", zone)
    try:
        schedule = read_schedule(text, owner_id=owner_id, now=now, timezone=zone)
    except (PhraseError, TriggerError) as error:
        return invalid("schedule", str(error))
    return with_given(schedule.fields, given.value | {"timezone": zone})


def read_schedule(text: str, *, owner_id: int, now: datetime, timezone: str) -> ScheduleText:
    """Read a schedule with its end and exceptions for a job of this owner; raises PhraseError and TriggerError."""
    plan = parse_plan(text, now=now, timezone=timezone)
    return schedule_of(plan, calendar_titles(owner_id) if plan.calendars else {})


def schedule_of(plan: Plan, titles: Mapping[str, str]) -> ScheduleText:
    """Find the calendars that a plan names; `titles` has all of the owner by name. Raises PhraseError."""
    stated = {each.name: getattr(plan, each.name) for each in fields(plan)}
    return ScheduleText(**stated | {"calendars": tuple(named_calendars(plan.calendars, titles))})
