"""Calendars: named by a person, shared by their jobs, and shown before they are saved."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Self

from django.db import transaction

from schedules import clock, engine, limits
from schedules.models import Calendar, Event, Job
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn
from schedules.when import calendar_data, calendar_rules
from schedules.when.calendar_rules import RuleError
from schedules.when.triggers import TriggerError, load_zone

MOST_CALENDARS = 100
MOST_SHOWN_DAYS = 60
NAME_LENGTH = 64
# The field of a form or tool that shows what is wrong with the rule of this kind.
_FIELDS = {Calendar.Kind.HOLIDAYS: "place", Calendar.Kind.DATES: "lines", Calendar.Kind.HOURS: "lines"}


@dataclass(frozen=True)
class CalendarSpec:
    """A calendar as a person describes it."""

    name: str
    kind: str
    place: str = ""
    """For public holidays: a country, or a part of it, like DE-BY."""
    categories: Sequence[str] = ()
    lines: Sequence[str] = ()
    """For own dates and weekly hours."""
    closes: bool = True
    timezone: str = ""


@dataclass(frozen=True)
class ShownCalendar:
    """What people see of a calendar."""

    number: int
    name: str
    kind: str
    kind_words: str
    words: str
    closes: bool
    timezone: str
    place: str
    categories: Sequence[str]
    lines: Sequence[str]
    days: Sequence[tuple[date, str]]
    """The next days that it marks, with their titles."""
    until: date | None
    updated_at: datetime
    jobs: Sequence[str] = field(default=())
    """The names of the jobs that use it."""

    @classmethod
    def of(cls, row: Calendar, now: datetime, jobs: Sequence[str] = ()) -> Self:
        made, rule = calendar_data.read(row.compiled), row.rule
        place = "-".join(filter(None, (rule.get("country"), rule.get("subdivision"))))
        today = now.date().isoformat()
        ahead = [(date.fromisoformat(day), title) for day, title in sorted(made.days.items()) if day >= today]
        return cls(
            row.pk or 0,
            row.name,
            row.kind,
            Calendar.Kind(row.kind).label,
            made.words,
            row.closes,
            row.timezone,
            place,
            rule.get("categories", ()),
            rule.get("dates") or rule.get("hours") or (),
            ahead[:MOST_SHOWN_DAYS],
            row.until,
            row.updated_at,
            jobs,
        )


def list_calendars(actor: Actor) -> list[ShownCalendar]:
    """Return the calendars of this person, each with the jobs that use it."""
    now = clock.now()
    rows = list(Calendar.objects.filter(owner=actor.user.pk).order_by("name"))
    users = engine.jobs_by_calendar(actor.user.pk) if rows else {}
    return [ShownCalendar.of(row, now, [job.name for job in users.get(row.name, ())]) for row in rows]


def calendar_words(owner_id: int) -> dict[str, str]:
    """Return the names of somebody's calendars, each with how a schedule in words calls it."""
    rows = Calendar.objects.filter(owner=owner_id).order_by("name").values_list("name", "words")
    return dict(rows[:MOST_CALENDARS])


def preview_calendar(actor: Actor, spec: CalendarSpec) -> Result[ShownCalendar]:
    """Return a calendar as it would be; nothing is stored."""
    now = clock.now()
    built = _build(actor, spec, now)
    return built if isinstance(built, Err) else Ok(ShownCalendar.of(built.value, now))


def set_calendar(actor: Actor, spec: CalendarSpec) -> Result[ShownCalendar]:
    """Add a calendar, or replace the one of this name; the jobs that use it follow at once."""
    now = clock.now()
    built = _build(actor, spec, now)
    if isinstance(built, Err):
        return built
    row = built.value
    with transaction.atomic():
        # No row can be locked before there is one.
        wait_for_turn(profile_of(actor.user))
        mine = Calendar.objects.filter(owner=actor.user.pk)
        old = mine.select_for_update().filter(name=row.name).first()
        if old is None and mine.count() >= MOST_CALENDARS:
            return Err(Code.TOO_MANY_CALENDARS, limit=MOST_CALENDARS)
        if old is not None:
            row.pk, row.created_at = old.pk, old.created_at
        row.save(force_insert=old is None, force_update=old is not None)
        if old is not None and old.digest != row.digest:
            engine.follow_calendar(row, now)
        before = _recorded(old) if old else {}
        _record(actor, "set calendar", row.name, now, before=before, after=_recorded(row))
    return Ok(ShownCalendar.of(row, now))


def delete_calendar(actor: Actor, name: str) -> Result[str]:
    """Delete a calendar that no job uses."""
    with transaction.atomic():
        row = Calendar.objects.select_for_update().filter(owner=actor.user.pk, name=name).first()
        if row is None:
            return Err(Code.CALENDAR_NOT_FOUND, name)
        if users := engine.jobs_by_calendar(actor.user.pk).get(name):
            named = [f"{job.name} (in the trash)" if job.deleted_at else job.name for job in users[:5]]
            return Err(Code.CALENDAR_IN_USE, name, matches=tuple(named), limit=len(users))
        row.delete()
        _record(actor, "delete calendar", name, clock.now(), before=_recorded(row))
    return Ok(name)


def ensure_holidays(actor: Actor, names: Sequence[str]) -> None:
    """Add calendars of public holidays for names like DE-BY or "DE-BY catholic" that are not calendars yet."""
    known = calendar_words(actor.user.pk)
    for name in names:
        place, *categories = name.split() or [""]
        if name in known or len(place) > NAME_LENGTH:
            continue
        chosen = [*calendar_rules.DEFAULT_CATEGORIES, *categories]
        set_calendar(actor, CalendarSpec(name, Calendar.Kind.HOLIDAYS, place, chosen))


def _build(actor: Actor, spec: CalendarSpec, now: datetime) -> Result[Calendar]:
    """Return a complete calendar that is not stored."""
    name = spec.name.strip()
    if not 0 < len(name) <= NAME_LENGTH or "," in name or limits.line_problem(name):
        return invalid("name", f"Use 1 to {NAME_LENGTH} printable characters, without commas.")
    if name in Job.OnClosed.values:
        return invalid("name", f"{name} says what happens to a closed run. Choose another name.")
    if spec.kind not in _FIELDS:
        return invalid("kind", f"Choose one of: {', '.join(kind.value for kind in _FIELDS)}.")
    if spec.timezone:
        try:
            load_zone(spec.timezone)
        except TriggerError as error:
            return invalid("timezone", error.reason)
    row = Calendar(
        owner_id=actor.user.pk,
        name=name,
        kind=spec.kind,
        closes=spec.closes,
        timezone=spec.timezone,
        created_at=now,
        updated_at=now,
    )
    try:
        row.rule = _rule_of(spec)
        engine.compile_calendar(row, now)
    except RuleError as error:
        return invalid(_FIELDS[Calendar.Kind(spec.kind)], str(error))
    return Ok(row)


def _rule_of(spec: CalendarSpec) -> dict[str, Any]:
    lines = [line.strip() for line in spec.lines if line.strip()]
    if problem := limits.json_problem(lines, max_bytes=64 * 1024):
        raise RuleError(problem)
    match spec.kind:
        case Calendar.Kind.HOLIDAYS:
            country, subdivision = calendar_rules.place_of(spec.place)
            categories = list(dict.fromkeys(spec.categories)) or list(calendar_rules.DEFAULT_CATEGORIES)
            return {"country": country, "subdivision": subdivision, "categories": categories}
        case Calendar.Kind.DATES:
            return {"dates": lines}
        case _:
            return {"hours": lines}


def _recorded(row: Calendar) -> dict[str, Any]:
    """Return what an event says of a calendar."""
    return {"kind": row.kind, "closes": row.closes, "timezone": row.timezone, **row.rule}


def _record(actor: Actor, verb: str, name: str, now: datetime, **values: Any) -> None:
    Event.objects.create(
        at=now, owner_id=actor.user.pk, actor=actor.label, door=actor.door, verb=verb, subject=name, **values
    )
