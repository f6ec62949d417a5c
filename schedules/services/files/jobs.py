"""Read the jobs of a file: this checks the fields, and the services check tasks and quotas."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from pydantic_core import PydanticCustomError

from schedules.limits import NAME_LENGTH, line_problem
from schedules.models import Job
from schedules.models.triggers import TRIGGER_COLUMNS
from schedules.result import Err, Ok
from schedules.services.files.documents import DocumentError, Node, Place, Problem, parse_document
from schedules.services.jobs.validation import with_given
from schedules.spec.job import FileSpec, JobSpec
from schedules.spec.readers import check_span, read_span
from schedules.when.clauses import Plan, named_calendars, parse_plan
from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.triggers import CalendarInterval, Cron, Interval, Once, Trigger, TriggerError, load_zone

TOP_FIELDS = ("timezone", "jobs")
FIELDS = ("name", "task", "arguments", "args", "paused", "schedule", *JobSpec.of_columns())
_ISO = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?")
# A placeholder for a schedule that cannot be read, so that the other fields are still checked.
_ANY_PLAN = Plan(Cron("* * * * *", "UTC"))
# Days without a year mean others so much earlier.
_EARLIER = timedelta(days=400)
_MEANS_THE_SAME = "a file means the same whenever it is applied: write"


@dataclass(frozen=True, slots=True)
class DescribedJob:
    """A job of a file: its columns, and the places of its fields."""

    key: str
    place: Place
    columns: dict[str, Any]
    trigger: Trigger
    has_start: bool
    """Whether the file sets the start of an interval; otherwise the job keeps its start."""
    skipped_days: tuple[date, ...]
    named_calendars: tuple[str, ...]
    """The calendars that the schedule excludes, as typed: "public holidays in bavaria"."""
    paused: bool | None
    places: Mapping[str, Place] = field(repr=False)

    def place_of(self, column: str) -> Place:
        """Return the place of the field that sets a column."""
        names = {"args": "arguments", "kwargs": "arguments"}
        return self.places.get(names.get(column, column)) or self.places.get(
            "schedule" if column in TRIGGER_COLUMNS else "", self.place
        )

    def with_calendars(self, titles: Mapping[str, str]) -> Self:
        """Return the job with the calendars that its schedule excludes; `titles` has all of the owner. Raises PhraseError."""
        if not self.named_calendars:
            return self
        calendars = named_calendars(self.named_calendars, titles)
        return replace(self, columns={**self.columns, "calendars": calendars})

    def days_to_skip(self, job: Job, now: datetime) -> list[date]:
        """Return the days ahead that the schedule excludes, and that a job does not skip yet."""
        today = now.astimezone(load_zone(self.columns["timezone"])).date()
        skipped = job.skips.split()
        return [day for day in self.skipped_days if day >= today and day.isoformat() not in skipped]


def read_jobs(
    texts: Iterable[tuple[str, str]], timezone: str, now: datetime
) -> tuple[list[DescribedJob], list[Problem]]:
    """Read the jobs of files, given as names and texts.

    If there are problems, the jobs are incomplete: they can be checked further, but must not be applied.
    """
    reader = _Reader(timezone, now)
    for name, text in texts:
        reader.read_file(name, text)
    return list(reader.jobs.values()), reader.problems


class _FieldError(Exception):
    """A value that a field does not accept."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


class _Reader:
    def __init__(self, timezone: str, now: datetime) -> None:
        self._default_zone = timezone
        self._now = now
        self.jobs: dict[str, DescribedJob] = {}
        self.problems: list[Problem] = []

    def read_file(self, name: str, text: str) -> None:
        try:
            document = parse_document(text, name)
        except DocumentError as error:
            self.problems.append(error.problem)
            return
        if document is None:
            return
        if not isinstance(document.value, dict):
            self._add_problem(document.place, 'begin with "jobs:"')
            return
        self._refuse_unknown(document, TOP_FIELDS, "a file")
        zone = self._default_zone
        if entry := document.value.get("timezone"):
            zone = self._read_options({"timezone": entry}, zone).get("timezone", zone)
        jobs = document.value.get("jobs")
        if jobs is None:
            self._add_problem(document.place, '"jobs" is missing')
        elif jobs.value is None:
            return
        elif not isinstance(jobs.value, dict):
            self._add_problem(jobs.place, "write the jobs as `name:` with their fields below it")
        else:
            for key, node in jobs.value.items():
                self._read_job(key, jobs.keys[key], node, zone)

    def _read_job(self, key: str, place: Place, node: Node, zone: str) -> None:
        if not isinstance(node.value, dict) or node.keys is None:
            self._add_problem(node.place, "write the fields of a job below its name, like `task: notify`")
            return
        if not key.strip() or len(key) > NAME_LENGTH or line_problem(key):
            self._add_problem(place, f"use a name of 1 to {NAME_LENGTH} printable characters")
            return
        if key in self.jobs:
            self._add_problem(place, f"{key!r} is also in {self.jobs[key].place}")
            return
        self._refuse_unknown(node, FIELDS, "a job")
        for name in ("task", "schedule"):
            if name not in node.value or node.value[name].value is None:
                self._add_problem(place, f"{key}: {name!r} is missing")
        values = self._read_options(node.value, zone)
        zone = values.get("timezone", zone)
        plan, has_start = self._read_schedule(node.value.get("schedule"), zone)
        if "task" not in values:
            return
        match with_given(plan.clauses, values):
            case Ok(merged):
                # The calendars are looked up by their names when the files are applied.
                values = {
                    name: value for name, value in merged.items() if name != "calendars" or name in values
                }
            case Err(errors=errors):
                for name, reasons in errors.items():
                    self._add_problem(node.value[name].place, " ".join(reasons))
        paused = values.pop("paused", None)
        columns = values | {"name": values.get("name") or key, "timezone": zone}
        columns["kwargs"] = columns.pop("arguments", {})
        self.jobs[key] = DescribedJob(
            key,
            place,
            columns,
            plan.trigger,
            has_start,
            plan.skipped_days,
            plan.calendars,
            paused,
            {name: entry.place for name, entry in node.value.items()},
        )

    def _read_options(self, entries: Mapping[str, Node], zone: str) -> dict[str, Any]:
        """Read the options of a job, except those with a problem, which is recorded."""
        entries = {name: entry for name, entry in entries.items() if name in FileSpec.of_columns()}
        values = {name: entry.plain() for name, entry in entries.items()}
        columns, problems = FileSpec.read_each(values, now=self._now, zone=zone)
        if columns.get("ends_at"):
            earlier, _ = FileSpec.read_each(values, now=self._now - _EARLIER, zone=zone)
            if earlier.get("ends_at") != columns["ends_at"]:
                problems.append((("ends_at",), f'{_MEANS_THE_SAME} a date and time, "2026-12-24T18:00"'))
        for (name, *positions), reason in problems:
            entry = entries[str(name)]
            self._add_problem((entry.value[positions[0]] if positions else entry).place, reason)
        return columns

    def _read_schedule(self, node: Node | None, zone: str) -> tuple[Plan, bool]:
        if node is not None and node.value is not None:
            try:
                return _schedule(node, zone, self._now)
            except _FieldError as error:
                self._add_problem(error.place or node.place, str(error))
        return _ANY_PLAN, False

    def _refuse_unknown(self, node: Node, fields: tuple[str, ...], what: str) -> None:
        for name in node.value:
            if name not in fields and node.keys:
                self._add_problem(node.keys[name], f"unknown field {name!r}; {what} has {', '.join(fields)}")

    def _add_problem(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place, message))


def _text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise _FieldError("give a text, in quotes if it looks like a number")
    return node.value


def _whole(node: Node) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool):
        raise _FieldError("give a whole number")
    return node.value


_STARTING = re.compile(r" (?:starting|beginning) (?P<date>\d{4}-\d\d-\d\d[t ]\d\d:\d\d)?", re.IGNORECASE)


def _schedule(node: Node, zone: str, now: datetime) -> tuple[Plan, bool]:
    """Return the plan of a schedule, and whether the file sets the start of an interval."""
    try:
        if isinstance(node.value, dict):
            trigger, has_start = _steps(node, zone, now)
            return Plan(trigger), has_start
        text = _text(node)
        if _ISO.fullmatch(text.strip()):
            return Plan(Once(parse_moment(text, now=now, timezone=zone, has_horizon=False), zone)), False
        plan = parse_plan(text, now=now, timezone=zone)
    except (PhraseError, TriggerError) as error:
        raise _FieldError(str(error)) from error
    if isinstance(plan.trigger, Once):
        raise _FieldError(f'{_MEANS_THE_SAME} a date and time, "2026-12-24T18:00"')
    start = _STARTING.search(text)
    if start and not start["date"]:
        raise _FieldError(f'{_MEANS_THE_SAME} "starting 2026-12-24 18:00"')
    if not _is_fixed(plan, text, zone, now):
        raise _FieldError(f'{_MEANS_THE_SAME} days with their year, like "until 2026-12-24"')
    return plan, bool(start)


def _is_fixed(plan: Plan, text: str, zone: str, now: datetime) -> bool:
    """Return whether the end and the skipped days of a text do not depend on when it is read."""
    if not (plan.ends_at or plan.skipped_days):
        return True
    try:
        earlier = parse_plan(text, now=now - _EARLIER, timezone=zone)
    except PhraseError:
        return False
    return (earlier.ends_at, earlier.skipped_days) == (plan.ends_at, plan.skipped_days)


def _steps(node: Node, zone: str, now: datetime) -> tuple[Trigger, bool]:
    """Read an interval: `every` is elapsed time, `days` and `months` are steps on the wall clock."""
    assert node.keys is not None
    for name in node.value:
        if name not in ("every", "days", "months", "start"):
            raise _FieldError(
                f"unknown field {name!r}; an interval has every, days, months and start", node.keys[name]
            )
    units = [name for name in ("every", "days", "months") if name in node.value]
    if len(units) != 1:
        raise _FieldError("give exactly one of every, days and months")
    start = _moment(node.value["start"], zone, now) if "start" in node.value else None
    amount = node.value[units[0]]
    try:
        if units == ["every"]:
            seconds = read_span(check_span(amount.plain()) or 0, now).total_seconds()
            return Interval(seconds, start or now + timedelta(seconds=seconds)), start is not None
        if start is None:
            raise _FieldError("give the start of days and months")
        return CalendarInterval(_whole(amount), units[0], start, zone), True
    except (_FieldError, PhraseError, PydanticCustomError) as error:
        raise _FieldError(str(error), amount.place) from error
    except OverflowError as error:
        raise _FieldError("this is too long", amount.place) from error


def _moment(node: Node, zone: str, now: datetime) -> datetime:
    """Read a moment, in UTC, because within a repeated hour, equal moments in two zones do not compare as equal."""
    text = _text(node).strip()
    if not _ISO.fullmatch(text):
        raise _FieldError('give a date and time like "2026-12-24T18:00"', node.place)
    try:
        return parse_moment(text, now=now, timezone=zone, has_horizon=False).astimezone(UTC)
    except PhraseError as error:
        raise _FieldError(str(error), node.place) from error
