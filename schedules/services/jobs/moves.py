"""Moves: change the time of day, zone, tags or topic of many jobs, as people write it, at once or by a job that runs later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction

from schedules import clock, limits
from schedules.models import Event, Job
from schedules.result import Code, Err, Ok, Result, invalid, sentence
from schedules.services.job_list import JobQuery
from schedules.services.jobs.bulk import MAX_JOBS, BulkChange, filter_jobs, without_own_jobs
from schedules.services.jobs.creation import Scheduled, schedule
from schedules.services.jobs.edits import PreparedEdit, prepare_edit, store_edits
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.jobs.proposals import ask_to_confirm
from schedules.services.permissions import Actor, event_of, record_all
from schedules.tasks.interface import Final, Run, Skip
from schedules.tasks.registry import task
from schedules.when.phrases import PhraseError, parse_clock_time, parse_span
from schedules.when.triggers import load_zone
from schedules.when.zones import first_pass, wall_time

STATUSES = (Job.Status.PENDING, Job.Status.PAUSED)
# How many jobs are scanned for a time of day.
MAX_SCANNED = 5_000
_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Move:
    """What to change in each job."""

    shift: timedelta | None = None
    """How much later; negative for earlier."""
    at: time | None = None
    timezone: str | None = None
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()
    topic: str | None = None

    def columns_for(self, job: Job) -> dict[str, Any] | str:
        """Return the new columns of a job, or why it cannot be moved."""
        columns: dict[str, Any] = {}
        if self.shift is not None or self.at is not None or self.timezone is not None:
            moved = self._schedule_for(job)
            if isinstance(moved, str):
                return moved
            columns |= moved
        if self.add_tags or self.remove_tags:
            tags = [tag for tag in job.tags if tag not in self.remove_tags]
            columns["tags"] = list(dict.fromkeys([*tags, *self.add_tags]))
        if self.topic is not None:
            if job.task != "notify":
                return "it sends no notification"
            columns["args"], columns["kwargs"] = merged_arguments(job, None, {"topic": self.topic})
        return columns

    def _schedule_for(self, job: Job) -> dict[str, Any] | str:
        zone = {"timezone": self.timezone} if self.timezone else {}
        match job.trigger_type:
            case Job.TriggerType.CRON:
                if self.shift is None and self.at is None:
                    return zone
                cron = self._moved_cron(job.cron)
                return (
                    {"cron": cron, **zone} if cron else "it has no single time of day, or would pass midnight"
                )
            case Job.TriggerType.ONCE if job.run_at:
                return {"run_at": self._moved_moment(job, job.run_at), **zone}
            case Job.TriggerType.INTERVAL if job.anchor_at and (job.calendar_unit or self.at is None):
                # An elapsed interval has no time of day that a zone could change.
                is_moved = job.calendar_unit or self.shift is not None
                return ({"anchor_at": self._moved_moment(job, job.anchor_at)} if is_moved else {}) | zone
        return "it has no time of day"

    def _moved_moment(self, job: Job, moment: datetime) -> datetime:
        """Move a moment on the wall clock; another zone shows the same time."""
        wall = wall_time(moment, load_zone(job.timezone))
        if self.at is not None:
            wall = wall.replace(hour=self.at.hour, minute=self.at.minute, second=0, microsecond=0)
        wall += self.shift or timedelta()
        return first_pass(wall, load_zone(self.timezone or job.timezone))

    def _moved_cron(self, expression: str) -> str | None:
        clock_times = _clock_times_of(expression)
        if clock_times is None:
            return None
        minute, hours = clock_times
        rest = " ".join(expression.split()[2:])
        if self.at is not None:
            return f"{self.at.minute} {self.at.hour} {rest}" if len(hours) == 1 else None
        minutes = [
            hour * 60 + minute + int((self.shift or timedelta()).total_seconds() // 60) for hour in hours
        ]
        if any(not 0 <= each < _DAY for each in minutes):
            return None
        return f"{minutes[0] % 60} {','.join(str(each // 60) for each in minutes)} {rest}"


def runs_at(job: Job, at: time) -> bool:
    """Return whether a job runs only at this time of day."""
    match job.trigger_type:
        case Job.TriggerType.CRON:
            return _clock_times_of(job.cron) == (at.minute, [at.hour])
        case Job.TriggerType.ONCE:
            moment = job.run_at
        case _:
            moment = job.anchor_at if job.calendar_unit else None
    local = wall_time(moment, load_zone(job.timezone)) if moment else None
    return local is not None and (local.hour, local.minute) == (at.hour, at.minute)


def jobs_to_move(
    actor: Actor, query: JobQuery, *, timezone: str | None = None, at: time | None = None
) -> tuple[list[Job], bool]:
    """Return the matching jobs, up to one too many, and whether older runs were not scanned."""
    movable = without_own_jobs(actor.jobs().filter(status__in=STATUSES))
    jobs, are_runs_cut = filter_jobs(actor, movable, query)
    if timezone is not None:
        jobs = jobs.filter(timezone=timezone)
    if at is None:
        return list(jobs[: MAX_JOBS + 1]), are_runs_cut
    return [job for job in jobs[:MAX_SCANNED] if runs_at(job, at)], are_runs_cut


def _clock_times_of(expression: str) -> tuple[int, list[int]] | None:
    """Return the minute and the hours of a cron expression, or None unless both are plain numbers."""
    fields = expression.split()
    if len(fields) != 5 or not fields[0].isdecimal() or not fields[1].replace(",", "").isdecimal():
        return None
    return int(fields[0]), [int(hour) for hour in fields[1].split(",") if hour]


@dataclass(frozen=True, slots=True)
class Plan:
    """The edits of some jobs, and the jobs that cannot be moved, with the reason."""

    edits: Sequence[PreparedEdit]
    unmoved: Sequence[tuple[Job, str]]


def plan_moves(actor: Actor, jobs: Sequence[Job], move: Move) -> Plan:
    """Check each job; those that need no change are in neither list."""
    now = clock.now()
    edits: list[PreparedEdit] = []
    unmoved: list[tuple[Job, str]] = []
    for job in jobs:
        columns = move.columns_for(job)
        if isinstance(columns, str):
            unmoved.append((job, columns))
            continue
        match prepare_edit(actor, job, columns, now):
            case Ok(None):
                pass
            case Ok(PreparedEdit() as edited):
                edits.append(edited)
            case Err() as error:
                unmoved.append((job, error.reasons or sentence(error.text)))
    return Plan(edits, unmoved)


def move_jobs(actor: Actor, keys: Sequence[int], revisions: dict[int, int], move: Move) -> Result[BulkChange]:
    """Move these jobs, or none if one of them has changed since it was shown."""
    with transaction.atomic():
        locked = actor.jobs().filter(pk__in=keys, status__in=STATUSES).order_by("pk")
        jobs = list(locked.select_for_update(of=("self",)))
        if {job.pk: job.revision for job in jobs} != {key: revisions[key] for key in keys}:
            return Err(Code.JOBS_CHANGED)
        plan = plan_moves(actor, jobs, move)
        now = clock.now()
        if refusal := store_edits(plan.edits, now):
            transaction.set_rollback(True)
            return refusal
        edited = (
            event_of(actor, "edit", now, job=each.job, before=each.before, after=each.after)
            for each in plan.edits
        )
        events = record_all(edited, now)
        ask_to_confirm(actor, [each.job for each in plan.edits if each.needs_confirmation], now)
    return Ok(BulkChange([each.job for each in plan.edits], [], events[0].pk if events else None))


NOTHING_TO_MOVE = "an update takes shift, time, timezone, add_tags, remove_tags or topic"


def read_move(options: Mapping[str, Any]) -> Result[Move]:
    """Read what to change in each job; other options are ignored."""
    at = read_clock(options.get("time"), "time")
    if isinstance(at, Err):
        return at
    shift = None
    if text := options.get("shift"):
        is_earlier = text.strip().startswith("-")
        try:
            span = parse_span(text.strip().lstrip("+-").strip())
        except PhraseError as error:
            return invalid("shift", str(error))
        shift = -span if is_earlier else span
    move = Move(
        shift=shift,
        at=at.value,
        timezone=options.get("timezone"),
        add_tags=options.get("add_tags") or (),
        remove_tags=options.get("remove_tags") or (),
        topic=options.get("topic"),
    )
    if move == Move():
        return invalid("action", NOTHING_TO_MOVE)
    if shift is not None and at.value is not None:
        return invalid("shift", "give shift or time")
    return Ok(move)


def read_clock(text: str | None, field: str) -> Result[time | None]:
    """Read a time of day, if one is given."""
    if text is None:
        return Ok(None)
    read = parse_clock_time(text)
    return invalid(field, 'write HH:MM, like "9:00" or "15:30"') if read is None else Ok(read)


TASK = "move_jobs"
# How many unmoved jobs a result names.
MAX_NAMED = 10


def move_later(actor: Actor, jobs: Sequence[Job], move: Move, at: datetime) -> Result[Scheduled]:
    """Create a job that moves these jobs at a moment; until then, canceling it undoes the move."""
    arguments = {
        "shift": None if move.shift is None else move.shift.total_seconds(),
        "at": move.at and move.at.strftime("%H:%M"),
        "timezone": move.timezone,
        "add_tags": list(move.add_tags),
        "remove_tags": list(move.remove_tags),
        "topic": move.topic,
    }
    kwargs = {argument: value for argument, value in arguments.items() if value not in (None, [])}
    name = f"Move {len(jobs)} jobs" if len(jobs) > 1 else f"Move {jobs[0].name}"
    return schedule(
        actor,
        name=name[: limits.NAME_LENGTH],
        task=TASK,
        kwargs={"jobs": [job.public_id for job in jobs], **kwargs},
        trigger_type=Job.TriggerType.ONCE,
        run_at=at,
    )


@task(
    TASK,
    title="Move jobs",
    description="Change the time, time zone, tags or topic of several of your jobs, like an update by bulk_jobs.",
)
def move_jobs_now(
    jobs: list[str],
    *,
    shift: float | None = None,
    at: str | None = None,
    timezone: str | None = None,
    add_tags: tuple[str, ...] = (),
    remove_tags: tuple[str, ...] = (),
    topic: str | None = None,
    run: Run,
) -> dict[str, object]:
    """Move the jobs that their owner still has and that can be moved; name the others in the result.

    `shift` is in seconds, and `at` a time of day like 9:00.
    """
    try:
        clock_time = time.fromisoformat(at.zfill(5)) if at else None
    except ValueError:
        raise Final('Write `at` as HH:MM, like "9:00".') from None
    move = Move(
        shift=None if shift is None else timedelta(seconds=shift),
        at=clock_time,
        timezone=timezone,
        add_tags=add_tags,
        remove_tags=remove_tags,
        topic=topic,
    )
    owner = get_user_model()._default_manager.get(pk=run.owner_id)
    actor = Actor(owner, Event.Door.ENGINE, name=run.job_name)
    movable = list(actor.jobs().filter(public_id__in=jobs, status__in=STATUSES))
    plan = plan_moves(actor, movable, move)
    keys = [edit.old.pk for edit in plan.edits]
    moved = move_jobs(actor, keys, {edit.old.pk: edit.old.revision for edit in plan.edits}, move)
    if isinstance(moved, Err):
        raise Final("A job was changed at the same moment, so none was moved: run this job again.")
    if not moved.value.jobs and not plan.unmoved:
        raise Skip("These jobs are gone, or like this already.")
    unmoved = {job.public_id: reason for job, reason in plan.unmoved[:MAX_NAMED]}
    return {"moved": len(moved.value.jobs)} | ({"left": unmoved} if unmoved else {})
