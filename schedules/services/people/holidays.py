"""Calendars of public holidays that jobs call by their usual names, like DE-BY: made when a job first uses one."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from schedules import engine
from schedules.models import Calendar
from schedules.result import Code, Err
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor, record_setting
from schedules.services.quotas import wait_for_turn
from schedules.when.calendar_rules import holiday_rule

MAX_CALENDARS = 100
NAME_LENGTH = 64


def calendar_titles(owner_id: int) -> dict[str, str]:
    """Return the calendars of a person: each name, and what the description of a schedule calls it."""
    rows = Calendar.objects.filter(owner=owner_id).order_by("name").values_list("name", "words")
    return dict(rows[:MAX_CALENDARS])


def holiday_calendar(owner_id: int, name: str, now: datetime) -> Calendar | None:
    """Return the calendar that a usual name means, not stored, or None for another name. Raises RuleError."""
    rule = holiday_rule(name) if len(name) <= NAME_LENGTH else None
    if rule is None:
        return None
    row = Calendar(
        owner_id=owner_id,
        name=name,
        kind=Calendar.Kind.HOLIDAYS,
        rule=rule,
        created_at=now,
        updated_at=now,
    )
    engine.compile_calendar(row, now)
    return row


def add_holidays(actor: Actor, owner: Any, names: Iterable[str], now: datetime) -> Err | None:
    """Store the missing ones of these calendars, or return why none can be added; call it inside a transaction."""
    # Lock the profile, because a new calendar has no row to lock.
    wait_for_turn(profile_of(owner))
    existing = set(Calendar.objects.filter(owner=owner.pk).values_list("name", flat=True))
    missing = [name for name in dict.fromkeys(names) if name not in existing]
    rows = [row for name in missing if (row := holiday_calendar(owner.pk, name, now))]
    if rows and len(existing) + len(rows) > MAX_CALENDARS:
        return Err(Code.TOO_MANY_CALENDARS, limit=MAX_CALENDARS)
    for row in rows:
        row.save(force_insert=True)
        record_setting(actor, "set calendar", row.name, now, before={}, after=row.facts)
    return None
