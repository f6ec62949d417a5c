"""Jobs: list, show, create and change, and all actions on one job."""

import re
from datetime import date, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from schedules import clock, services
from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, reads
from schedules.api.paging import jobs_page
from schedules.api.preconditions import check_match, required_revision, tag_of
from schedules.api.problems import expect, invalid_value, problem_of
from schedules.api.reading import (
    job_id_of,
    job_of,
    known_job_of,
    read_job_query,
    read_moment,
)
from schedules.api.schemas.jobs import (
    JobChange,
    JobFilters,
    JobsOut,
    NewJob,
    NewJobOut,
    Pause,
    ReminderAnswer,
    Skip,
    TriggerIn,
    TriggerOut,
    WholeJobOut,
)
from schedules.api.schemas.runs import RunOut, WhyFilter, WhyOut
from schedules.models import Job
from schedules.result import Code, Err
from schedules.services.documents import masked_run, whole_job, why_json
from schedules.services.jobs import trigger_addresses
from schedules.services.jobs.masked_arguments import merged_arguments
from schedules.services.jobs.schedule_texts import columns_of
from schedules.services.permissions import read_activity
from schedules.services.runs.answers import SNOOZE, answer_in_words
from schedules.when.phrases import parse_day, parse_moment, parse_past

router = Router(tags=["jobs"])
_MOMENT = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]\s*[0-9]")


@reads(router, "", JobsOut)
def list_jobs(request: HttpRequest, filters: Query[JobFilters]) -> Any:
    """List jobs, the newest first.

    The filters follow the rules of the page of jobs. `outcome` and `error` are those of the last run.
    """
    actor, now = actor_of(request), clock.now()
    return jobs_page(actor, read_job_query(actor, filters, now), filters)


@changes(router, "POST", "", {201: NewJobOut})
def create_job(request: HttpRequest, response: HttpResponse, body: NewJob) -> Any:
    """Create a job; a notification that names no place goes to the default one of the owner.

    With an `Idempotency-Key`, a repeated request answers with the job that the first one made.
    """
    actor, now = actor_of(request), clock.now()
    profile = actor.read_profile()
    columns = columns_of(body.schedule, body, owner_id=actor.user.pk, now=now, zone=profile.zone)
    made = expect(
        services.schedule(
            actor,
            profile=profile,
            paused=body.paused,
            **expect(columns),
            name=body.name,
            task=body.task,
            args=body.args,
            kwargs=profile.with_default_place(body.task, body.args, body.kwargs),
        )
    )
    response["Location"] = f"{request.path}/{made.job.public_id}"
    similar = made.similar.public_id if made.similar else None
    return Status(201, _job_out(response, made.job) | {"similar": similar})


@reads(router, "/{job}", WholeJobOut)
def show_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """Show a job: schedule, next runs, arguments, policies and last error.

    A job is named by its id, its number or its exact name; one in the trash is shown, too. The `ETag` changes with
    every edit and every pause, not with every run.
    """
    target = known_job_of(actor_of(request), job)
    read_activity(target)
    return _job_out(response, target)


@changes(router, "PATCH", "/{job}", {200: WholeJobOut}, needs_match=True)
def change_job(request: HttpRequest, response: HttpResponse, job: str, body: JobChange) -> Any:
    """Change a pending or paused job; what is left out stays.

    `If-Match` is required: with the `ETag` of the job as you saw it, the change is refused if somebody else was first;
    `*` means the job as it is now.
    """
    actor, now = actor_of(request), clock.now()
    revision = required_revision(request)
    target = job_of(actor, job)
    columns = expect(columns_of(body.schedule, body, owner_id=target.owner_id, now=now, zone=target.timezone))
    if body.name is not None:
        columns["name"] = body.name
    if body.args is not None or body.kwargs is not None:
        columns["args"], columns["kwargs"] = merged_arguments(target, body.args, body.kwargs or {})
    match services.edit(actor, target.public_id, revision=revision, **columns):
        case Err(code=Code.JOB_CHANGED) as error if revision is not None:
            raise problem_of(error, status=412)
        case result:
            return _job_out(response, expect(result))


@changes(router, "DELETE", "/{job}", {204: None}, takes_match=True)
def delete_job(request: HttpRequest, job: str) -> Any:
    """Move a job to the trash; `POST /jobs/{job}/restore` brings it back."""
    actor = actor_of(request)
    target = job_of(actor, job)
    check_match(request, target)
    expect(services.delete(actor, target.public_id))
    return Status(204, None)


@changes(router, "POST", "/{job}/pause", {200: WholeJobOut})
def pause_job(request: HttpRequest, response: HttpResponse, job: str, body: Pause | None = None) -> Any:
    """Pause a job until it is resumed, or until a time; called again, it changes the end.

    Runs within the pause are skipped.
    """
    actor, target, options = actor_of(request), job_of(actor_of(request), job), body or Pause()
    until = None
    if options.until is not None:
        until = read_moment(
            parse_moment, options.until, "until", target.timezone, clock.now(), may_be_day=True
        )
    return _job_out(
        response, expect(services.pause(actor, target.public_id, reason=options.reason, until=until))
    )


@changes(router, "POST", "/{job}/resume", {200: WholeJobOut})
def resume_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """End a pause: the job goes on with its next scheduled time."""
    actor = actor_of(request)
    return _job_out(response, expect(services.resume(actor, job_id_of(actor, job))))


@changes(router, "POST", "/{job}/confirm", {200: WholeJobOut}, takes_match=True)
def confirm_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """Let a job run that an agent has made or changed and that waits for a confirmation.

    Only a token of the type Program may do this, and none whose own jobs wait. Runs that were missed are skipped.
    """
    actor = actor_of(request)
    target = job_of(actor, job)
    check_match(request, target)
    return _job_out(response, expect(services.confirm(actor, target.public_id, revision=target.revision)))


@changes(router, "POST", "/{job}/cancel", {200: WholeJobOut})
def cancel_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """End a job for good; a run in progress finishes, and `restore` undoes it."""
    actor = actor_of(request)
    return _job_out(response, expect(services.cancel(actor, job_id_of(actor, job))))


@changes(router, "POST", "/{job}/restore", {200: WholeJobOut})
def restore_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """Bring back a deleted or cancelled job."""
    actor = actor_of(request)
    job_id = job_id_of(actor, job, among=actor.restorable())
    return _job_out(response, expect(services.restore(actor, job_id)))


@changes(router, "POST", "/{job}/skip", {200: WholeJobOut})
def skip_runs(request: HttpRequest, response: HttpResponse, job: str, body: Skip | None = None) -> Any:
    """Leave out the next run of a repeating job, or its runs on certain days."""
    actor, now, options = actor_of(request), clock.now(), body or Skip()
    target = job_of(actor, job)
    days: list[date] = []
    slots: list[datetime] = []
    for text in options.dates:
        if _MOMENT.match(text):
            slots.append(read_moment(parse_moment, text, "dates", target.timezone, now))
        else:
            days.append(read_moment(parse_day, text, "dates", target.timezone, now))
    return _job_out(response, expect(services.skip(actor, target.public_id, days, slots, undo=options.undo)))


@changes(router, "POST", "/{job}/answer", {200: WholeJobOut})
def answer_reminder(request: HttpRequest, response: HttpResponse, job: str, body: ReminderAnswer) -> Any:
    """Answer the last reminder of a job, or take the last answer back; `reminder` of the job says what came of it."""
    actor = actor_of(request)
    job_id = job_id_of(actor, job)
    if body.until is not None and body.answer != SNOOZE:
        raise invalid_value("until", "only a snooze has an end")
    expect(answer_in_words(actor, job_id, f"{body.answer} {body.until or ''}"))
    return _job_out(response, job_of(actor, job_id))


@changes(router, "POST", "/{job}/run", {202: RunOut})
def run_job(request: HttpRequest, response: HttpResponse, job: str) -> Any:
    """Run a job once, now; its schedule does not change.

    The answer is the queued run; its address is in `Location`.
    """
    actor = actor_of(request)
    run = expect(services.run_now(actor, job_id_of(actor, job)))
    response["Location"] = f"{request.path.partition('/jobs/')[0]}/runs/{run.pk}"
    return Status(202, masked_run(run, actor.read_profile().zone))


@changes(router, "POST", "/{job}/trigger", {201: TriggerOut}, repeatable=False)
def open_trigger(request: HttpRequest, job: str, body: TriggerIn | None = None) -> Any:
    """Give a job a trigger address, or a new one: a POST request to it starts a run. The address is shown once.

    The address before it is accepted for seven more days.
    """
    actor, options = actor_of(request), body or TriggerIn()
    opened = expect(
        trigger_addresses.open_trigger(
            actor, job_id_of(actor, job), scheme=options.scheme, secret_name=options.secret
        )
    )
    return Status(201, {"job": opened.job.public_id, "url": opened.url, "scheme": options.scheme})


@changes(router, "DELETE", "/{job}/trigger", {204: None})
def close_trigger(request: HttpRequest, job: str) -> Any:
    """Take the trigger address of a job away; requests to it are refused from now on."""
    actor = actor_of(request)
    expect(trigger_addresses.close_trigger(actor, job_id_of(actor, job)))
    return Status(204, None)


@reads(router, "/{job}/why", WhyOut)
def explain_run(request: HttpRequest, job: str, filters: Query[WhyFilter]) -> Any:
    """Explain from the records what became of a run: the last one, or the one nearest to a time."""
    actor, now = actor_of(request), clock.now()
    target = known_job_of(actor, job)
    at = read_moment(parse_past, filters.at, "at", target.timezone, now) if filters.at else None
    return why_json(expect(services.why(actor, target.public_id, at, now)))


def _job_out(response: HttpResponse, job: Job) -> dict[str, Any]:
    """Return a job, and send its ETag."""
    response["ETag"] = tag_of(job)
    return whole_job(job, clock.now())
