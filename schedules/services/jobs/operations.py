"""Operations on one job: they read what callers write, call the service, and return its document."""

from collections.abc import Collection, Mapping
from typing import Any

from schedules import clock, engine
from schedules.models import Job
from schedules.result import Document, RefusedError, expect, invalid, operation
from schedules.services.documents import iso_in, masked_run, shown_job, whole_job, why_json
from schedules.services.jobs import addresses, creation, states
from schedules.services.jobs.chains import conditions_of, upcoming, upcoming_of
from schedules.services.jobs.edits import edit
from schedules.services.jobs.masked_arguments import default_name, merged_arguments
from schedules.services.jobs.proposals import confirm
from schedules.services.jobs.schedule_texts import columns_of, preview
from schedules.services.jobs.validation import interval_problem, usable_tasks
from schedules.services.people.stored_secrets import secret_warnings
from schedules.services.permissions import Actor, read_activity
from schedules.services.reading import (
    days_and_slots,
    job_as_seen,
    job_id_of,
    job_of,
    known_job_of,
    read_moment,
    read_pause_end,
)
from schedules.services.runs.actions import run_now, skip
from schedules.services.runs.answers import SNOOZE, answer_in_words
from schedules.services.runs.explanations import why
from schedules.spec.job import JobSpec, ScheduleSpec
from schedules.when.phrases import parse_past


@operation
def create_job(
    actor: Actor,
    options: JobSpec,
    *,
    name: str | None = None,
    schedule: str,
    task: str,
    args: list[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    paused: bool = False,
) -> Document:
    """Create a job; a notification that names no place goes to the default one of the owner.

    With an `Idempotency-Key`, a repeated request answers with the job that the first one made.
    """
    profile, arguments = actor.read_profile(), dict(kwargs or {})
    columns = columns_of(schedule, options, owner_id=actor.user.pk, now=clock.now(), zone=profile.zone)
    made = expect(
        creation.schedule(
            actor,
            profile=profile,
            paused=paused,
            **expect(columns),
            name=name or default_name(task, args or [], arguments),
            task=task,
            args=args or [],
            kwargs=profile.with_default_place(task, args or [], arguments),
        )
    )
    return _changed(actor, made.job) | {"similar": made.similar.public_id if made.similar else None}


@operation
def show_job(actor: Actor, job: str) -> Document:
    """Show a job: schedule, next runs, arguments, policies, last error, neighbours, open alert and last runs.

    A job is named by its id, its number or its exact name; one in the trash is shown, too. The `ETag` changes with
    every edit and every pause, not with every run.
    """
    target = known_job_of(actor, job)
    read_activity(target)
    return shown_job(actor, target, clock.now())


@operation
def change_job(
    actor: Actor,
    job: str,
    options: JobSpec,
    *,
    name: str | None = None,
    schedule: str | None = None,
    args: list[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    revision: int | None = None,
) -> Document:
    """Change a pending or paused job; what is left out stays.

    `If-Match` is required: with the `ETag` of the job as you saw it, the change is refused if somebody else was first;
    `*` means the job as it is now.
    """
    target = job_of(actor, job)
    columns = expect(
        columns_of(schedule, options, owner_id=target.owner_id, now=clock.now(), zone=target.timezone)
    )
    if name is not None:
        columns["name"] = name
    if args is not None or kwargs is not None:
        columns["args"], columns["kwargs"] = merged_arguments(target, args, kwargs or {})
    return _changed(actor, expect(edit(actor, target.public_id, revision=revision, **columns)))


@operation
def delete_job(actor: Actor, job: str, *, revision: int | None = None) -> Document:
    """Move a job to the trash; `POST /jobs/{job}/restore` brings it back."""
    return _document(expect(states.delete(actor, job_as_seen(actor, job, revision).public_id)))


@operation
def pause_job(actor: Actor, job: str, *, until: str | None = None, reason: str = "") -> Document:
    """Pause a job until it is resumed, or until a time; called again, it changes the end.

    Runs within the pause are skipped.
    """
    target = job_of(actor, job)
    end = read_pause_end(until, target.timezone, clock.now())
    return _document(expect(states.pause(actor, target.public_id, reason=reason, until=end)))


@operation
def resume_job(actor: Actor, job: str) -> Document:
    """End a pause: the job goes on with its next scheduled time."""
    return _document(expect(states.resume(actor, job_id_of(actor, job))))


@operation
def confirm_job(actor: Actor, job: str, *, revision: int | None = None) -> Document:
    """Let a job run that an agent has made or changed and that waits for a confirmation.

    Only a token of the type Program may do this, and none whose own jobs wait. Runs that were missed are skipped.
    """
    target = job_as_seen(actor, job, revision)
    return _document(expect(confirm(actor, target.public_id, revision=target.revision)))


@operation
def cancel_job(actor: Actor, job: str) -> Document:
    """End a job for good; a run in progress finishes, and `restore` undoes it."""
    return _document(expect(states.cancel(actor, job_id_of(actor, job))))


@operation
def restore_job(actor: Actor, job: str) -> Document:
    """Bring back a deleted or cancelled job."""
    job_id = job_id_of(actor, job, among=actor.restorable())
    return _document(expect(states.restore(actor, job_id)))


@operation
def skip_runs(actor: Actor, job: str, *, dates: Collection[str] = (), undo: bool = False) -> Document:
    """Leave out the next run of a repeating job, or its runs on certain days."""
    target = job_of(actor, job)
    days, slots = days_and_slots(dates, target.timezone, clock.now())
    return _document(expect(skip(actor, target.public_id, days, slots, undo=undo)))


@operation
def answer_reminder(actor: Actor, job: str, *, answer: str, until: str | None = None) -> Document:
    """Answer the last reminder of a job, or take the last answer back; `reminder` of the job says what came of it."""
    job_id = job_id_of(actor, job)
    if until is not None and answer != SNOOZE:
        raise RefusedError(invalid("until", "only a snooze has an end"))
    expect(answer_in_words(actor, job_id, f"{answer} {until or ''}"))
    return _document(job_of(actor, job_id))


@operation
def run_job(actor: Actor, job: str) -> Document:
    """Run a job once, now; its schedule does not change.

    The answer is the queued run; its address is in `Location`.
    """
    run = expect(run_now(actor, job_id_of(actor, job)))
    return masked_run(run, actor.read_profile().zone)


@operation
def open_trigger(actor: Actor, job: str, *, scheme: str = "", secret: str = "") -> Document:
    """Give a job a trigger address, or a new one: a POST request to it starts a run. The address is shown once.

    The address before it is accepted for seven more days.
    """
    job_id = job_id_of(actor, job)
    opened = expect(addresses.open_trigger(actor, job_id, scheme=scheme, secret_name=secret))
    return {"job": opened.job.public_id, "url": opened.url, "scheme": scheme}


@operation
def close_trigger(actor: Actor, job: str) -> Document:
    """Take the trigger address of a job away; requests to it are refused from now on."""
    return _document(expect(addresses.close_trigger(actor, job_id_of(actor, job))))


@operation
def explain_run(actor: Actor, job: str, *, at: str = "") -> Document:
    """Explain from the records what became of a run: the last one, or the one nearest to a time."""
    now = clock.now()
    target = known_job_of(actor, job)
    moment = read_moment(parse_past, at, "at", target.timezone, now) if at else None
    return why_json(expect(why(actor, target.public_id, moment, now)))


@operation
def list_upcoming(actor: Actor, *, hours: float = 24, limit: int = 50, job: str = "") -> Document:
    """List the runs of the next hours in order, or the next runs of one job."""
    now, zone = clock.now(), actor.read_profile().zone
    if job:
        runs = upcoming_of(job_of(actor, job), now, limit)
    else:
        runs = upcoming(actor, now, hours=hours, limit=limit)
    conditions = conditions_of(job for _, job in runs)
    quiet = engine.quiet_hours_ahead(job for _, job in runs)
    return {
        "upcoming": [
            {
                "at": iso_in(at, zone),
                "id": row.public_id,
                "name": row.name,
                "only_if": conditions.get(row.pk),
                "held_until": iso_in(quiet[row.pk].until(at), zone) if row.pk in quiet else None,
            }
            for at, row in runs
        ],
        "timezone": zone,
        "is_worker_running": engine.is_any_cluster_running(now),
    }


@operation
def preview_schedule(actor: Actor, options: ScheduleSpec, *, schedule: str, count: int = 5) -> Document:
    """Say what a schedule means, and when it runs next; nothing is stored."""
    now, owner_id = clock.now(), actor.user.pk
    fields = expect(columns_of(schedule, options, owner_id=owner_id, now=now, zone=actor.read_profile().zone))
    if fields["every"] and (problem := interval_problem(actor, fields["every"])):
        raise RefusedError(problem)
    shown = expect(preview(owner_id, fields, now, count))
    if not shown.next_runs and not shown.waits_for:
        raise RefusedError(invalid("schedule", "this moment is in the past"))
    zone = fields["timezone"]
    return {
        "description": shown.description,
        "timezone": zone,
        "next_runs": [iso_in(run, zone) for run in shown.next_runs],
        "warnings": shown.warnings,
        "waits_for_start": bool(shown.waits_for),
    }


@operation
def list_tasks(actor: Actor) -> Document:
    """List the tasks that jobs can use, with the JSON Schema of their arguments."""
    return {
        "tasks": [
            {
                "name": task.name,
                "description": task.description,
                "arguments": task.schema,
                "takes_more_values": task.takes_more_values,
            }
            for task in usable_tasks(actor)
        ]
    }


def _document(job: Job) -> Document:
    return whole_job(job, clock.now())


def _changed(actor: Actor, job: Job) -> Document:
    """Return a job with the warnings about the secrets that it refers to."""
    document = _document(job)
    return document | {"warnings": [*document["warnings"], *secret_warnings(actor, job)]}
