"""Previews of schedules that no job has yet: in words, with the runs that their calendars, exceptions and end leave."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from schedules.models import Job
from schedules.models.job_problems import schedule_problems
from schedules.result import Ok, Result, invalid_fields
from schedules.services.jobs.calendars import attach_calendars
from schedules.services.jobs.creation import set_anchor
from schedules.services.jobs.forecasts import Preview, preview_of, whole_words_of
from schedules.services.jobs.validation import days_problem, no_runs_left


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
