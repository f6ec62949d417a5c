"""Scheduled moves: a job that moves other jobs when it runs."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta

from django.contrib.auth import get_user_model

from schedules import limits
from schedules.models import Event, Job
from schedules.result import Err, Result
from schedules.services.jobs.creation import Scheduled, schedule
from schedules.services.jobs.moves import STATUSES, Move, move_jobs, plan_moves
from schedules.services.permissions import Actor
from schedules.tasks.interface import Final, Run, Skip
from schedules.tasks.registry import task

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
