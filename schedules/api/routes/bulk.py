"""Changes of many jobs, which are shown before they are confirmed: bulk changes, undo, and files of jobs."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from schedules import clock
from schedules.api.auth import actor_of
from schedules.api.endpoints import changes, route
from schedules.api.messages import message_of
from schedules.api.problems import ProblemError
from schedules.api.schemas.many import ApplyIn, ApplyOut, BulkIn, BulkOut, UndoIn, UndoOut
from schedules.result import RefusedError, expect
from schedules.services.documents import plan_json
from schedules.services.files.applying import apply_plan
from schedules.services.files.documents import Problem
from schedules.services.files.jobs import read_jobs
from schedules.services.files.plans import Plan, make_plan
from schedules.services.jobs import bulk, many
from schedules.services.reading import read_value
from schedules.spec.readers import read_zone

router = Router(tags=["many jobs"])


route(router, "POST /bulk", many.change_jobs, BulkOut, body=BulkIn)
route(router, "POST /undo", many.undo_change, UndoOut, body=UndoIn, is_optional=True)


@changes(router, "POST", "/apply", {200: ApplyOut})
def apply_file(request: HttpRequest, body: ApplyIn) -> Any:
    """Make jobs as a file describes them.

    The first call changes nothing: it answers with the plan, field by field, and `confirm`. The same request with
    `confirm` executes exactly this plan in one transaction, within ten minutes.
    """
    actor, now = actor_of(request), clock.now()
    zone = read_value(read_zone, body.timezone, "timezone") if body.timezone else actor.read_profile().zone
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
        raise RefusedError(stale)
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
