"""Calendars of a person, which close times for their jobs: list, preview, set and delete them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import transaction

from schedules import clock, engine, limits
from schedules.channels.kinds import server_problem
from schedules.engine.upkeep.tasks import AddressError, digest_of, fetch_calendar
from schedules.models import Calendar, Job
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.secrets.encryption import UnreadableError, seal, unseal
from schedules.services.installation.setup import ensure_calendar_job
from schedules.services.people.holidays import MAX_CALENDARS, NAME_LENGTH
from schedules.services.people.hourly_limits import HourlyLimit
from schedules.services.people.profiles import profile_of
from schedules.services.people.stored_secrets import current_key
from schedules.services.permissions import Actor, record_setting
from schedules.services.quotas import wait_for_turn
from schedules.when import calendar_data, calendar_rules, calendars
from schedules.when.calendar_rules import RuleError
from schedules.when.triggers import TriggerError, load_zone

MAX_SHOWN_DAYS = 60
# Each is a request to a server that a person chooses.
ADDRESSES_AN_HOUR = 60
_addresses = HourlyLimit(ADDRESSES_AN_HOUR)
# The form field or tool argument that an error in a rule of this kind belongs to.
_FIELDS = {
    Calendar.Kind.HOLIDAYS: "place",
    Calendar.Kind.DATES: "lines",
    Calendar.Kind.HOURS: "lines",
    Calendar.Kind.ICS: "address",
}


@dataclass(frozen=True)
class CalendarSpec:
    """A calendar as a person describes it."""

    name: str
    kind: str
    place: str = ""
    """For public holidays: a country, or a part of it, like DE-BY."""
    categories: Sequence[str] = ()
    lines: Sequence[str] = ()
    """For dates and weekly hours."""
    closes: bool = True
    timezone: str = ""
    address: str = ""
    """For an ICS calendar that is read again and again; without address or file, an existing one keeps its source."""
    file_name: str = ""
    file_text: str = ""


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
    source: str = ""
    """Where an ICS calendar comes from: the host of its address, or the name of its file."""
    read_at: datetime | None = None
    last_error: str = ""
    unread: int = 0
    """How many events cannot be read."""

    @classmethod
    def of(cls, row: Calendar, now: datetime, jobs: Sequence[str] = ()) -> Self:
        calendar, rule = calendar_data.read(row.compiled), row.rule
        place = "-".join(filter(None, (rule.get("country"), rule.get("subdivision"))))
        today = now.date().isoformat()
        ahead = [
            (date.fromisoformat(day), title) for day, title in sorted(calendar.days.items()) if day >= today
        ]
        if calendar.events:
            ahead = _events_ahead(calendar, ZoneInfo(row.timezone or rule["zone"]), now)
        return cls(
            row.pk or 0,
            row.name,
            row.kind,
            Calendar.Kind(row.kind).label,
            calendar.words,
            row.closes,
            row.timezone,
            place,
            rule.get("categories", ()),
            rule.get("dates") or rule.get("hours") or (),
            ahead[:MAX_SHOWN_DAYS],
            row.until,
            row.updated_at,
            jobs,
            rule.get("source", ""),
            row.read_at,
            row.last_error,
            row.unread,
        )


def _events_ahead(calendar: calendars.Calendar, zone: ZoneInfo, now: datetime) -> list[tuple[date, str]]:
    """Return the next events of a calendar, each with its day, and its times in the zone."""
    shown: list[tuple[date, str]] = []
    today = now.astimezone(zone).date()
    for start, end, title in calendar.events:
        if len(shown) == MAX_SHOWN_DAYS:
            break
        if isinstance(start, datetime) and isinstance(end, datetime):
            if end >= now:
                local = start.astimezone(zone)
                shown.append((local.date(), f"{local:%H:%M}–{end.astimezone(zone):%H:%M} {title}".strip()))
        elif end > today:
            shown.append((start, title))
    return shown


def list_calendars(actor: Actor) -> list[ShownCalendar]:
    """Return the calendars of this person, each with the jobs that use it."""
    now = clock.now()
    rows = list(Calendar.objects.filter(owner=actor.user.pk).defer("source", "sealed").order_by("name"))
    users = engine.jobs_by_calendar(actor.user.pk) if rows else {}
    return [ShownCalendar.of(row, now, [job.name for job in users.get(row.name, ())]) for row in rows]


def preview_calendar(actor: Actor, spec: CalendarSpec) -> Result[ShownCalendar]:
    """Return a calendar as it would be, without storing it."""
    now = clock.now()
    built = _build(actor, spec, now)
    return built if isinstance(built, Err) else Ok(ShownCalendar.of(built.value.row, now))


def set_calendar(actor: Actor, spec: CalendarSpec) -> Result[ShownCalendar]:
    """Add a calendar, or replace the one of this name; the jobs that use it follow at once."""
    now = clock.now()
    built = _build(actor, spec, now)
    if isinstance(built, Err):
        return built
    row, address = built.value.row, built.value.address
    with transaction.atomic():
        # Lock the profile, because a new calendar has no row to lock.
        wait_for_turn(profile_of(actor.user))
        key = current_key() if address else ""
        if key is None:
            return Err(Code.SECRET_KEY_CHANGED)
        row.sealed = seal(address, row.place, key) if address else ""
        mine = Calendar.objects.filter(owner=actor.user.pk)
        old = mine.select_for_update().filter(name=row.name).first()
        if old is None and mine.count() >= MAX_CALENDARS:
            return Err(Code.TOO_MANY_CALENDARS, limit=MAX_CALENDARS)
        if old is not None:
            row.pk, row.created_at = old.pk, old.created_at
        row.save(force_insert=old is None, force_update=old is not None)
        if old is not None and old.digest != row.digest:
            engine.follow_calendar(row, now)
        before = old.facts if old else {}
        record_setting(actor, "set calendar", row.name, now, before=before, after=row.facts)
    if address:
        ensure_calendar_job()
    return Ok(ShownCalendar.of(row, now))


def delete_calendar(actor: Actor, name: str) -> Result[str]:
    """Delete a calendar that no job uses."""
    with transaction.atomic():
        row = Calendar.objects.select_for_update().filter(owner=actor.user.pk, name=name).first()
        if row is None:
            return Err(Code.CALENDAR_NOT_FOUND, name)
        if users := engine.jobs_by_calendar(actor.user.pk).get(name):
            names = [f"{job.name} (in the trash)" if job.deleted_at else job.name for job in users[:5]]
            return Err(Code.CALENDAR_IN_USE, name, matches=tuple(names), limit=len(users))
        row.delete()
        record_setting(actor, "delete calendar", name, clock.now(), before=row.facts)
    return Ok(name)


@dataclass(frozen=True)
class _Built:
    """A complete calendar that is not stored yet, and its address, if it has one."""

    row: Calendar
    address: str = ""


def _build(actor: Actor, spec: CalendarSpec, now: datetime) -> Result[_Built]:
    """Build a calendar from its spec; this reads its address."""
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
    address = ""
    try:
        if spec.kind == Calendar.Kind.ICS:
            address = _read_source(actor, spec, row, now)
        else:
            row.rule = _rule_of(spec)
            engine.compile_calendar(row, now)
    except (RuleError, AddressError) as error:
        return invalid(_FIELDS[Calendar.Kind(spec.kind)], str(error))
    return Ok(_Built(row, address))


def _read_source(actor: Actor, spec: CalendarSpec, row: Calendar, now: datetime) -> str:
    """Read an ICS calendar from its address or its file; return the address. Raises AddressError and RuleError."""
    zone = profile_of(actor.user).timezone or settings.CRONTY_TIME_ZONE
    address, text, source = _address_of(spec.address.strip()), spec.file_text, spec.file_name[:100] or "file"
    if not (address or text):
        old = Calendar.objects.filter(owner=actor.user.pk, name=row.name, kind=Calendar.Kind.ICS).first()
        if old is None:
            raise RuleError("Enter the address of an ICS calendar, or choose a file.")
        try:
            address = unseal(old.sealed, old.place) if old.sealed else ""
        except UnreadableError as error:
            raise RuleError("Enter the address again: the secret key has changed.") from error
        text, source = old.source, old.rule["source"]
    if address:
        if not _addresses.allows(str(actor.user.pk)):
            raise AddressError(f"At most {ADDRESSES_AN_HOUR} addresses an hour: try again later.")
        text, source = async_to_sync(fetch_calendar)(address), urlsplit(address).hostname or ""
        row.source_digest, row.read_at, row.tried_at = digest_of(text, now), now, now
    else:
        row.source = limits.strip_unprintable(text)
    row.rule = {"source": source, "zone": zone}
    engine.compile_calendar(row, now, text)
    return address


def _address_of(address: str) -> str:
    """Return the https address for a webcal one, which calendar programs copy; others stay. Raises RuleError."""
    if address.lower().startswith("webcal"):
        address = f"https:{address.partition(':')[2]}"
    if address and (problem := server_problem(address)):
        raise RuleError(problem)
    return address


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
