"""Due jobs as named rows of the columns that a claim needs: a thousand of them cost far less than model instances."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from schedules.models import Job
from schedules.models.triggers import TriggerType, trigger_of
from schedules.when.spread import JobTrigger, spread_out
from schedules.when.triggers import Once


class DueJob(NamedTuple):
    """One due job; planning takes it like a `Job`."""

    pk: int
    public_id: str
    owner_id: int
    name: str
    task: str
    next_run_at: datetime
    trigger_type: str
    run_at: datetime | None
    every: timedelta | None
    calendar_unit: str
    anchor_at: datetime | None
    cron: str
    timezone: str
    spread: timedelta
    ends_at: datetime | None
    max_runs: int | None
    skips: str
    created_at: datetime
    slot_count: int
    overlap: str
    catch_up: str
    timeout: timedelta
    at_most_once: bool
    owner_is_active: bool

    @property
    def trigger(self) -> JobTrigger:
        """The trigger that fires the job; raises TriggerError if the columns are invalid."""
        if self.trigger_type == TriggerType.ONCE and self.run_at:
            return _once(self.run_at, self.timezone)
        trigger = trigger_of(
            {
                "trigger_type": self.trigger_type,
                "run_at": self.run_at,
                "every": self.every,
                "calendar_unit": self.calendar_unit,
                "anchor_at": self.anchor_at or self.created_at,
                "cron": self.cron,
                "timezone": self.timezone,
            }
        )
        return spread_out(trigger, self.spread, self.public_id)


@lru_cache(maxsize=1024)
def _once(run_at: datetime, timezone: str) -> Once:
    # Shared, because the jobs of a burst are due at the same moment. Only rows of the database may share one: their
    # moments are in UTC, while the two moments of a repeated hour would be equal in another zone.
    return Once(run_at, timezone)


# What planning takes: the row of a claim, or a job that a person or an agent changes.
PlannedJob: TypeAlias = Job | DueJob
