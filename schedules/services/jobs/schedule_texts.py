"""Schedules as text, with their end and exceptions: what they mean for a job, and previews of what no job has yet."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from schedules.models import Job
from schedules.models.job_problems import schedule_problems
from schedules.models.triggers import columns_of as columns_of_trigger
from schedules.result import Err, Ok, Result, invalid, invalid_fields
from schedules.services.jobs.calendars import attach_calendars
from schedules.services.jobs.creation import set_anchor
from schedules.services.jobs.forecasts import Preview, preview_of, whole_words_of
from schedules.services.jobs.validation import days_problem, no_runs_left, with_given
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


def preview(owner_id: int, fields: Mapping[str, Any], now: datetime, count: int = 5) -> Result[Preview]:
    """Describe the schedule that a new job would have, and list its next runs, without storing anything.

    `fields` are as for `schedule`. A single moment in the past has no next runs.
    """
    columns = {name: value for name, value in fields.items() if name != "skipped_days"}
    skipped_days = fields.get("skipped_days", ())
    if refusal := days_problem(skipped_days, columns["timezone"], now):
        return refusal
    job = Job(owner_id=owner_id, **columns, skips=" ".join(map(str, skipped_days)))
    set_anchor(job, now)
    if problems := schedule_problems(job):
        return invalid_fields({name: [problem] for name, problem in problems.items()})
    if refusal := attach_calendars(job):
        return refusal
    job.next_run_at = job.next_slot(now)
    if job.next_run_at is None and job.trigger_type != Job.TriggerType.ONCE:
        return no_runs_left(job, now)
    return Ok(replace(preview_of(job, now, count), description=whole_words_of(job)))
