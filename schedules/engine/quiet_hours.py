"""Quiet hours: notifications that fall into those of their owner are held, and sent once when they end."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings

from schedules.engine.gaps import Slot
from schedules.engine.sql.claims import DueJob
from schedules.models import Execution, Job
from schedules.models.alert_rules import quiet_until
from schedules.models.executions import HELD_UNTIL
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.tasks.placeholders import NOTIFICATION

Status = Execution.Status
Cause = Execution.Cause


class QuietHours(NamedTuple):
    """The quiet hours of a person, in their zone."""

    hours: str
    zone: str

    @property
    def end(self) -> str:
        return self.hours.partition("-")[2]

    def until(self, moment: datetime) -> datetime | None:
        """Return when the quiet hours at this moment end, or None outside them."""
        return quiet_until(self.hours, self.zone, moment)

    def held_words(self, moment: datetime, zone: str) -> str:
        """Say until when a message due at this moment is held; empty outside quiet hours."""
        until = self.until(moment)
        return f"held until {until.astimezone(ZoneInfo(zone)):%H:%M} by quiet hours" if until else ""


class Hold(NamedTuple):
    """Until when the runs of a job are held, and whether one is already."""

    until: datetime
    end: str
    has_held: bool

    @property
    def reason(self) -> str:
        return f"{HELD_UNTIL}{self.end} by quiet hours."

    @property
    def reason_of_others(self) -> str:
        return f"Quiet hours: one message for several runs is sent at {self.end}."


def waits_for_quiet_hours(task: str, public_id: str, cause: str = Cause.SCHEDULE) -> bool:
    """Return whether a run waits for the end of quiet hours."""
    # Alerts have rules of their own, and urgent jobs have no quiet hours.
    is_notification = task == NOTIFICATION and not public_id.startswith(NOTICE_PREFIX)
    return is_notification and cause not in (Cause.MANUAL, Cause.REMINDER)


def quiet_hours_ahead(jobs: Iterable[Any]) -> dict[int, QuietHours]:
    """Return the quiet hours that hold coming messages of these jobs or rows, by key; one query, or none without any."""
    return quiet_hours_of({job.pk for job in jobs if waits_for_quiet_hours(job.task, job.public_id)})


def quiet_hours_of(job_ids: Collection[int]) -> dict[int, QuietHours]:
    """Return the quiet hours of the owners of these jobs, by job; urgent jobs and owners without any are left out."""
    if not job_ids:
        return {}
    rows = Job.objects.filter(
        pk__in=job_ids, urgent=False, owner__cronty_profile__quiet_hours__gt=""
    ).order_by()
    columns = ("pk", "owner__cronty_profile__quiet_hours", "owner__cronty_profile__timezone")
    return {
        pk: QuietHours(hours, zone or settings.CRONTY_TIME_ZONE)
        for pk, hours, zone in rows.values_list(*columns)
    }


def holds_of(jobs: Sequence[DueJob], now: datetime) -> dict[int, Hold]:
    """Return the holds of those due jobs whose slots must wait."""
    return _holds([job.pk for job in jobs if waits_for_quiet_hours(job.task, job.public_id)], now)


def hold_slots(slots: Sequence[Slot], hold: Hold) -> list[Slot]:
    """Hold the first of these slots, and skip the others: one message stands for them all."""
    first, rest = (slots[:0], slots) if hold.has_held else (slots[:1], slots[1:])
    return [
        *(replace(slot, status=Status.QUEUED, reason=hold.reason, until=hold.until) for slot in first),
        *(replace(slot, status=Status.SKIPPED, reason=hold.reason_of_others) for slot in rest),
    ]


def hold_runs(rows: Sequence[Execution], jobs: Mapping[int, Job], now: datetime) -> set[int]:
    """Hold those ready runs that must wait, and skip those for which another one stands; return their keys."""
    waiting = [
        row
        for row in rows
        if row.attempt == 0 and waits_for_quiet_hours(row.task, jobs[row.job_id or 0].public_id, row.cause)
    ]
    holds = _holds({row.job_id or 0 for row in waiting}, now)
    ends = defaultdict(list)
    for row in waiting:
        if hold := holds.get(row.job_id or 0):
            # What started a run may give its message values of its own.
            is_unique = row.reason.startswith(HELD_UNTIL) or bool((row.given or {}).keys() - {"depth"})
            ends[hold._replace(has_held=hold.has_held and not is_unique)].append(row.pk)
            holds[row.job_id or 0] = hold._replace(has_held=True)
    for hold, keys in ends.items():
        held = Execution.objects.filter(pk__in=keys)
        if hold.has_held:
            held.end(Status.SKIPPED, now, hold.reason_of_others)
        else:
            held.update(available_at=hold.until, reason=hold.reason)
    return {key for keys in ends.values() for key in keys}


def release_held(owner_id: int, now: datetime) -> None:
    """Let held runs start: the next claim holds them again if the quiet hours, which have changed, go on."""
    held = Execution.objects.filter(status=Status.QUEUED, available_at__gt=now, attempt=0, owner=owner_id)
    held.filter(reason__startswith=HELD_UNTIL).update(available_at=now)


def _holds(job_ids: Collection[int], now: datetime) -> dict[int, Hold]:
    quiet = {
        pk: (until, hours.end)
        for pk, hours in quiet_hours_of(job_ids).items()
        if (until := hours.until(now)) is not None
    }
    if not quiet:
        return {}
    live = Execution.objects.live().filter(job__in=list(quiet), status=Status.QUEUED, attempt=0)
    held = set(live.filter(reason__startswith=HELD_UNTIL).values_list("job_id", flat=True))
    return {pk: Hold(*end, pk in held) for pk, end in quiet.items()}
