"""Changes of many jobs, which are shown before they are confirmed: bulk changes, undo, and files of jobs."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules import clock
from schedules.api.auth import actor_of
from schedules.api.endpoints import changes
from schedules.api.messages import message_of
from schedules.api.problems import ProblemError, expect, invalid_value, problem_of
from schedules.api.reading import read_job_query, read_moment, read_zone
from schedules.api.schemas.jobs import JobFilters
from schedules.api.schemas.many import ApplyIn, ApplyOut, BulkIn, BulkOut, UndoIn, UndoOut
from schedules.result import Code, Err
from schedules.services import Actor
from schedules.services.activity import changes_between
from schedules.services.documents import iso_in, plan_json
from schedules.services.files.applying import apply_plan
from schedules.services.files.documents import Problem
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import Plan, make_plan
from schedules.services.job_list import JobQuery
from schedules.services.jobs import bulk, moves, undo
from schedules.services.jobs.edits import PreparedEdit
from schedules.services.jobs.later_moves import move_later
from schedules.services.jobs.move_words import read_clock, read_move
from schedules.services.jobs.pause_all import pause_reason, what_goes_on
from schedules.services.jobs.states import pause_problem
from schedules.when.phrases import parse_moment

router = Router(tags=["many jobs"])
MAX_SHOWN = 50
_OF_UPDATE = (
    "at_time",
    "in_timezone",
    "shift",
    "time",
    "timezone",
    "add_tags",
    "remove_tags",
    "topic",
    "starting",
)


@changes(router, "POST", "/bulk", {200: BulkOut})
def change_jobs(request: HttpRequest, body: BulkIn) -> Any:
    """Do the same to all jobs that match, up to 500; an update shifts times, or sets a time of day, a zone, tags or a topic.

    The first call changes nothing: it answers which jobs would be changed, with `confirm`. The same request with
    `confirm` changes exactly these, within ten minutes.
    """
    actor, now = actor_of(request), clock.now()
    zone = actor.read_profile().zone
    until = None
    if body.action != "pause" and (body.until or body.reason):
        raise invalid_value("until", "only a pause has an end and a reason")
    if body.action == "update":
        return _update_jobs(actor, body, now)
    if misplaced := next((name for name in _OF_UPDATE if getattr(body, name) is not None), None):
        raise invalid_value(misplaced, 'only the action "update" takes it')
    if body.until is not None:
        until = read_moment(parse_moment, body.until, "until", zone, now, may_be_day=True)
    query = _query_of(actor, body, now)
    is_everything = body.action == "pause" and query.selects_all_pending
    reason = pause_reason(body.reason, is_everything=is_everything)
    if problem := pause_problem(reason, until, now):
        raise problem_of(problem)
    jobs, _ = bulk.matching_jobs(actor, body.action, query)
    if len(jobs) > bulk.MAX_JOBS:
        raise problem_of(Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS))
    note = what_goes_on(actor) if is_everything else ""
    revisions = [(job.pk, job.revision) for job in jobs]
    request_body = body.model_dump(exclude={"confirm"})
    if body.confirm:
        if stale := bulk.confirmation_problem(actor, body.confirm, request_body, revisions):
            raise problem_of(stale)
        done = expect(
            bulk.change_jobs(actor, body.action, [job.pk for job in jobs], reason=reason, until=until)
        )
        return {
            "is_done": True,
            "count": len(done.jobs),
            "jobs": _named_jobs(done.jobs),
            "undo": done.undo,
            "paused_until": iso_in(until, zone),
            "note": note,
        }
    return {
        "is_done": False,
        "count": len(jobs),
        "jobs": _named_jobs(jobs),
        "confirm": bulk.confirmation_of(actor, request_body, revisions) if jobs else None,
        "paused_until": iso_in(until, zone),
        "note": note,
    }


def _query_of(actor: Actor, body: BulkIn, now: datetime) -> JobQuery:
    filters = JobFilters(**body.model_dump(include=set(JobFilters.model_fields), exclude_none=True))
    return read_job_query(actor, filters, now)


def _update_jobs(actor: Actor, body: BulkIn, now: datetime) -> dict[str, Any]:
    """Show the same edit of all jobs that match, or make it, at once or at a later moment."""
    zone = actor.read_profile().zone
    zones = {
        name: read_zone(value, name)
        for name in ("timezone", "in_timezone")
        if (value := getattr(body, name)) is not None
    }
    move = expect(read_move(body.model_dump() | zones, now))
    at = expect(read_clock(body.at_time, "at_time"))
    starting = None
    if body.starting is not None:
        starting = read_moment(parse_moment, body.starting, "starting", zone, now, may_be_day=True)
        if starting <= now:
            raise invalid_value("starting", "it is in the past; leave it out for now")
    query = _query_of(actor, body, now)
    jobs, _ = moves.jobs_to_move(actor, query, timezone=zones.get("in_timezone"), at=at)
    if len(jobs) > bulk.MAX_JOBS:
        raise problem_of(Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS))
    plan = moves.plan_moves(actor, jobs, move, message_of)
    revisions = {edit.old.pk: edit.old.revision for edit in plan.edits}
    request_body = body.model_dump(exclude={"confirm"})
    shown = {
        "count": len(plan.edits),
        "jobs": [_shown_edit(edit) for edit in plan.edits[:MAX_SHOWN]],
        "unmoved": [
            {"id": job.public_id, "name": job.name, "why": why} for job, why in plan.unmoved[:MAX_SHOWN]
        ],
        "starting": iso_in(starting, zone),
    }
    if not body.confirm:
        token = bulk.confirmation_of(actor, request_body, [*revisions.items()]) if revisions else None
        return {"is_done": False, "confirm": token, **shown}
    if stale := bulk.confirmation_problem(actor, body.confirm, request_body, [*revisions.items()]):
        raise problem_of(stale)
    if starting:
        mover = expect(move_later(actor, [edit.old for edit in plan.edits], move, starting)).job
        undo_id = mover.event.pk if mover.event else None
        return {"is_done": True, **shown, "undo": undo_id, "updated_by": mover.public_id}
    done = expect(moves.move_jobs(actor, list(revisions), revisions, move, message_of))
    return {"is_done": True, **shown, "count": len(done.jobs), "undo": done.undo}


def _shown_edit(edit: PreparedEdit) -> dict[str, str]:
    changes = "; ".join(change.text for change in changes_between(edit.before, edit.after, edit.job))
    return {"id": edit.job.public_id, "name": edit.job.name, "change": changes}


@changes(router, "POST", "/undo", {200: UndoOut})
def undo_change(request: HttpRequest, body: UndoIn | None = None) -> Any:
    """Undo your last call that changed jobs, or any change by its number from `GET /events`."""
    actor, options = actor_of(request), body or UndoIn()
    events = undo.last_call(actor) if options.change is None else undo.events_of_call(actor, options.change)
    if isinstance(events, Err):
        raise problem_of(events)
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


@changes(router, "POST", "/apply", {200: ApplyOut})
def apply_file(request: HttpRequest, body: ApplyIn) -> Any:
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
