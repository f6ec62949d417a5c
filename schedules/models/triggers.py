"""The columns of a job that hold its trigger, and the trigger that they describe."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models

from schedules.when.triggers import (
    CalendarInterval,
    Cron,
    Interval,
    Once,
    Trigger,
    TriggerError,
    cron_trigger,
)
from schedules.when.unplanned import Unplanned

# For intervals without an anchor, which are validated before they get one.
_PLACEHOLDER_ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)


# The length of a month in the column `every` of jobs whose `calendar_unit` is months.
MONTH = timedelta(days=30)


# Together with the time zone, these determine when a job runs.
TRIGGER_COLUMNS = ("trigger_type", "run_at", "every", "calendar_unit", "anchor_at", "cron")


class CalendarUnit(models.TextChoices):
    DAYS = "days"
    MONTHS = "months"

    @property
    def length(self) -> timedelta:
        """The value of one unit in the column `every`."""
        return MONTH if self == CalendarUnit.MONTHS else timedelta(days=1)


class TriggerType(models.TextChoices):
    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"

    @property
    def column(self) -> str:
        """The column that only jobs of this type use."""
        return {"once": "run_at", "interval": "every", "cron": "cron"}[self.value]


def trigger_of(columns: Mapping[str, Any], *, is_stored: bool = False) -> Trigger:
    """Build the trigger of a job from its columns; raise TriggerError if they are invalid.

    Columns of a stored job were validated before, so `is_stored` checks only their form: pages read hundreds of them.
    """
    match columns["trigger_type"]:
        case TriggerType.ONCE if columns["run_at"]:
            return Once(columns["run_at"], columns["timezone"])
        case TriggerType.INTERVAL if columns["every"] is not None and columns.get("calendar_unit"):
            unit = CalendarUnit(columns["calendar_unit"])
            start = columns.get("anchor_at") or _PLACEHOLDER_ANCHOR
            return CalendarInterval(columns["every"] // unit.length, unit.value, start, columns["timezone"])
        case TriggerType.INTERVAL if columns["every"] is not None:
            # Not rounded: Interval refuses fractions of a second.
            return Interval(columns["every"].total_seconds(), columns.get("anchor_at") or _PLACEHOLDER_ANCHOR)
        case TriggerType.CRON:
            return cron_trigger(columns["cron"], columns["timezone"], is_stored)
    raise TriggerError("trigger_type", "choose once, interval or cron, and fill in what it needs.")


def columns_of(trigger: Trigger) -> dict[str, Any]:
    """Return the columns that hold a trigger, with those of other types empty.

    Zone and anchor are left out: every job has a zone, and an unchanged interval keeps its anchor. A calendar interval
    includes its anchor, which is part of it.
    """
    columns: dict[str, Any] = {"run_at": None, "every": None, "calendar_unit": "", "cron": ""}
    match trigger:
        case Once(run_at=moment):
            return columns | {"trigger_type": TriggerType.ONCE, "run_at": moment}
        case Interval(seconds=seconds):
            return columns | {"trigger_type": TriggerType.INTERVAL, "every": timedelta(seconds=seconds)}
        case CalendarInterval(count=count, unit=unit, start=start):
            every = count * CalendarUnit(unit).length
            own = {"every": every, "calendar_unit": unit, "anchor_at": start}
            return columns | {"trigger_type": TriggerType.INTERVAL} | own
        case Cron(expression=expression):
            return columns | {"trigger_type": TriggerType.CRON, "cron": expression}
        case Unplanned():
            return columns | {"trigger_type": TriggerType.CRON, "cron": trigger.expression}
