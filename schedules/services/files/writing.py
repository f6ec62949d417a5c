"""Write jobs as YAML, always in the same order and form, so that the same jobs give the same file."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from schedules.when import durations
from schedules.when.phrases import end_of_day
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Trigger, load_zone
from schedules.when.unplanned import After, Unplanned

HEADER = "# Jobs of Cronty, written by `cronty export`; `cronty apply` reads them.\n"
WIDTH = 100


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes multi-line texts as blocks."""


def _represent_text(dumper: Any, text: str) -> Any:
    # A block would lose trailing blanks and unusual line breaks.
    is_block = "\n" in text and not re.search(r"[ \t]\n|[\r\x85\u2028\u2029]|\A[ \t\n]", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else None)


_Dumper.add_representer(str, _represent_text)


def write_jobs(jobs: Mapping[str, Mapping[str, Any]], timezone: str) -> str:
    """Return the text of a file with these jobs by key; `timezone` applies to jobs without their own."""
    document = {"timezone": timezone, "jobs": dict(jobs)}
    text: str = yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False
    )
    return HEADER + text


def schedule_value(trigger: Trigger, timezone: str) -> Any:
    """Return the field `schedule` for a trigger."""
    match trigger:
        case Cron(expression=expression):
            return expression
        case After():
            delay = f"{durations.typed(trigger.delay)} after" if trigger.delay else "after"
            return f'{delay} "{trigger.job}" {trigger.when.words}'
        case Unplanned():
            return trigger.expression
        case Once(run_at=moment):
            return moment_text(moment, timezone)
        case Interval(seconds=seconds, start=start):
            every = durations.typed(timedelta(seconds=seconds))
            return {"every": every, "start": moment_text(start, timezone)}
        case CalendarInterval(count=count, unit=unit, start=start):
            return {unit: count, "start": moment_text(start, timezone)}


def moment_text(moment: datetime, timezone: str) -> str:
    return moment.astimezone(load_zone(timezone)).isoformat()


def end_text(moment: datetime, timezone: str) -> str:
    """Return the end of a job, as a bare date if it is the end of a day."""
    local = moment.astimezone(load_zone(timezone))
    # In UTC, because within a repeated hour, equal moments in two zones do not compare as equal.
    is_end_of_day = end_of_day(local.date(), timezone).astimezone(UTC) == moment.astimezone(UTC)
    return local.date().isoformat() if is_end_of_day else local.isoformat()
