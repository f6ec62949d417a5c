"""What the schedules in a file leave out: the calendars that they name, and the days that jobs have to skip."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime

from schedules.models import Job
from schedules.services.files.jobs import DescribedJob
from schedules.when.clauses import named_calendars
from schedules.when.triggers import load_zone


def with_calendars(spec: DescribedJob, titles: Mapping[str, str]) -> DescribedJob:
    """Return a job of a file with the calendars that its schedule excludes; `titles` has all of the owner. Raises PhraseError."""
    if not spec.named_calendars:
        return spec
    calendars = named_calendars(spec.named_calendars, titles)
    return replace(spec, columns={**spec.columns, "calendars": calendars})


def days_to_skip(job: Job, spec: DescribedJob, now: datetime) -> list[date]:
    """Return the days ahead that the schedule in a file excludes, and that a job does not skip yet."""
    if not spec.skipped_days:
        return []
    today = now.astimezone(load_zone(spec.columns["timezone"])).date()
    skipped = job.skips.split()
    return [day for day in spec.skipped_days if day >= today and day.isoformat() not in skipped]
