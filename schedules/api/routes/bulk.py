"""Changes of many jobs, which are shown before they are confirmed: bulk changes, undo, and files of jobs."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from schedules import clock
from schedules.api.auth import actor_of
from schedules.api.documents import iso_in, plan_json
from schedules.api.endpoints import changes
from schedules.api.messages import message_of
from schedules.api.problems import ProblemError, expect, invalid_value, problem_of
from schedules.api.reading import read_job_query, read_moment, read_zone
from schedules.api.schemas.jobs import JobFilters
from schedules.api.schemas.many import ApplyIn, ApplyOut, BulkIn, BulkOut, UndoIn, UndoOut
from schedules.result import Code, Err
from schedules.services.files.applying import apply_plan
from schedules.services.files.documents import Problem
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import Plan, make_plan
from schedules.services.jobs import bulk, undo
from schedules.services.jobs.states import pause_problem
from schedules.when.phrases import parse_moment

router = Router(tags=["many jobs"])
MAX_SHOWN = 50


@changes(router, "POST", "/bulk", {200: BulkOut}, repeatable=True)
def change_jobs(request: HttpRequest, response: HttpResponse, body: BulkIn) -> Any:
    """Do the same to all jobs that match, up to 500.

    The first call changes nothing: it answers which jobs would be changed, with `confirm`. The same request with
    `confirm` changes exactly these, within ten minutes.
    """
    actor, now = actor_of(request), clock.now()
    zone = actor.read_profile().zone
    until = None
    if body.action != "pause" and (body.until or body.reason):
        raise invalid_value("until", "only a pause has an end and a reason")
    if body.until is not None:
        until = read_moment(parse_moment, body.until, "until", zone, now, may_be_day=True)
    if problem := pause_problem(body.reason, until, now):
        raise problem_of(problem)
    filters = JobFilters(**body.model_dump(include=set(JobFilters.model_fields), exclude_none=True))
    jobs, _ = bulk.matching_jobs(actor, body.action, read_job_query(actor, filters, now))
    if len(jobs) > bulk.MAX_JOBS:
        raise problem_of(Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS))
    revisions = [(job.pk, job.revision) for job in jobs]
    request_body = body.model_dump(exclude={"confirm"})
    if body.confirm:
        if stale := bulk.confirmation_problem(actor, body.confirm, request_body, revisions):
            raise problem_of(stale)
        done = expect(
            bulk.change_jobs(actor, body.action, [job.pk for job in jobs], reason=body.reason, until=until)
        )
        return {
            "is_done": True,
            "count": len(done.jobs),
            "jobs": _named_jobs(done.jobs),
            "undo": done.undo,
            "paused_until": iso_in(until, zone),
        }
    return {
        "is_done": False,
        "count": len(jobs),
        "jobs": _named_jobs(jobs),
        "confirm": bulk.confirmation_of(actor, request_body, revisions) if jobs else None,
        "paused_until": iso_in(until, zone),
    }


@changes(router, "POST", "/undo", {200: UndoOut}, repeatable=True)
def undo_change(request: HttpRequest, response: HttpResponse, body: UndoIn | None = None) -> Any:
    """Undo your last call that changed jobs, or any change by its number from `GET /events`."""
    actor, options = actor_of(request), body or UndoIn()
    events = undo.last_call(actor) if options.change is None else undo.events_of_call(actor, options.change)
    if not events:
        raise invalid_value("change", "there is no such change that can still be undone")
    done = expect(undo.undo(actor, events))
    return {
        "jobs": _named_jobs(done.jobs),
        "refused": [
            {"id": event.job.public_id if event.job else "", "name": event.subject, "why": message_of(error)}
            for event, error in done.refused[:MAX_SHOWN]
        ],
    }


@changes(router, "POST", "/apply", {200: ApplyOut}, repeatable=True)
def apply_file(request: HttpRequest, response: HttpResponse, body: ApplyIn) -> Any:
    """Make jobs as a file describes them.

    The first call changes nothing: it answers with the plan, field by field, and `confirm`. The same request with
    `confirm` executes exactly this plan in one transaction, within ten minutes.
    """
    actor, now = actor_of(request), clock.now()
    zone = read_zone(body.timezone) if body.timezone else actor.read_profile().zone
    specs, problems = read_jobs([(body.source, body.text)], zone, now)
    plan = make_plan(actor, body.source, specs, now, prune=body.prune)
    if problems or plan.problems:
        raise _invalid_file([*problems, *plan.problems])
    request_body = body.model_dump(exclude={"confirm"})
    revisions = [
        (job.pk, job.revision) for step in plan.steps for job in (step.job, step.replaced) if job and job.pk
    ]
    revisions += [(-number, 0) for number, step in enumerate(plan.steps) if not step.job.pk]
    if not body.confirm:
        token = bulk.confirmation_of(actor, request_body, revisions) if plan.steps else None
        return _plan_out(plan, is_applied=False, confirm=token)
    if stale := bulk.confirmation_problem(actor, body.confirm, request_body, revisions):
        raise problem_of(stale)
    expect(apply_plan(actor, plan))
    return _plan_out(plan, is_applied=True, confirm=None)


def _plan_out(plan: Plan, *, is_applied: bool, confirm: str | None) -> dict[str, Any]:
    return plan_json(plan) | {"applied": is_applied, "confirm": confirm}


def _invalid_file(problems: list[Problem]) -> ProblemError:
    errors = [
        (f"text:{each.place.line}:{each.place.column}", message_of(each.error) if each.error else each.text)
        for each in sorted(problems, key=lambda each: each.place)
    ]
    return ProblemError(422, "invalid", f"Nothing was changed: {errors[0][1]}", errors=errors)


def _named_jobs(jobs: Any) -> list[dict[str, str]]:
    return [{"id": job.public_id, "name": job.name} for job in jobs[:MAX_SHOWN]]
