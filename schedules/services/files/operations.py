"""Operations on files of jobs: plan and apply, export, edit one job as a document, and import checks of healthchecks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from schedules import clock
from schedules.models import Job
from schedules.models.heartbeats import HEALTHCHECKS
from schedules.result import Document, RefusedError, Result, expect, invalid, invalid_fields, operation
from schedules.services.documents import plan_json, whole_job
from schedules.services.files import applying, healthchecks
from schedules.services.files.documents import Problem
from schedules.services.files.jobs import DescribedJob, read_jobs
from schedules.services.files.plans import Plan, make_plan
from schedules.services.files.writing import HEADER, write_jobs
from schedules.services.jobs import bulk
from schedules.services.jobs.edits import edit_refusal
from schedules.services.permissions import Actor
from schedules.services.reading import job_of, read_value, source_problem
from schedules.spec.readers import read_zone

MAX_PROBLEMS = 50
EDIT_HEADER = "# Save this file and close the editor to change the job. Close it without a change to leave the job as it is.\n"


@operation
def apply_file(
    actor: Actor,
    *,
    source: str,
    text: str = "",
    files: Sequence[Mapping[str, str]] = (),
    timezone: str | None = None,
    prune: bool = False,
    at_once: bool = False,
    confirm: str | None = None,
) -> Document:
    """Make jobs as a file describes them, or several files.

    The first call changes nothing: it answers with the plan, field by field, and `confirm`. The same request with
    `confirm` executes exactly this plan in one transaction, within ten minutes; one with `at_once` needs no plan before.
    """
    now = clock.now()
    zone = read_value(read_zone, timezone, "timezone") if timezone else actor.read_profile().zone
    texts = [(each["name"], each["text"]) for each in files] or [("text", text)]
    specs, problems = read_jobs(texts, zone, now)
    plan = make_plan(actor, source, specs, now, prune=prune)
    # What could be read is checked, too, so that all problems are shown at once.
    _check([*problems, *plan.problems])
    request = {"source": source, "texts": texts, "timezone": zone, "prune": prune}
    apply = partial(applying.apply_plan, actor, plan)
    if at_once and plan.steps:
        return _applied(plan, apply)
    return _confirmed(actor, plan, request, confirm, apply)


@operation
def import_checks(
    actor: Actor,
    *,
    text: str,
    ping_key: str | None = None,
    replace_ping_key: bool = False,
    source: str = HEALTHCHECKS,
    prune: bool = False,
    confirm: str | None = None,
) -> Document:
    """Turn checks of healthchecks into heartbeats with the same addresses: the first call shows the plan."""
    try:
        checks = healthchecks.parse_checks(text)
    except healthchecks.ChecksError as error:
        raise RefusedError(invalid("text", str(error))) from error
    healthchecks.leave_out_taken(actor, checks, source)
    now, zone = clock.now(), actor.read_profile().zone
    specs, problems = read_jobs([(source, write_jobs(checks.jobs, zone))], zone, now)
    plan = make_plan(actor, source, specs, now, prune=prune)
    _check([*problems, *plan.problems])
    if adopted := [step.job.name for step in plan.steps if step.is_adopted]:
        names = ", ".join(adopted[:10])
        why = f"you have heartbeats with other addresses and the same names: {names}. Rename them first"
        raise RefusedError(invalid("text", why))
    keys = {ping_key} if ping_key else checks.ping_keys
    key = expect(healthchecks.ping_key_to_take(actor, keys, replace=replace_ping_key))
    request = {"text": text, "source": source, "prune": prune, "ping_key": key}
    take_over = partial(healthchecks.take_over, actor, plan, checks.ping_ids, key)
    return _confirmed(actor, plan, request, confirm, take_over, more=bool(key)) | {
        "checks": [
            {
                "id": ping_id,
                "name": job["name"],
                "schedule": _schedule_text(job["schedule"]),
                "timezone": job["timezone"],
                "grace": job["arguments"]["grace"],
            }
            for ping_id, job in checks.jobs.items()
        ],
        "left_out": [asdict(each) for each in checks.left_out],
        "never_run": plan.left_out,
        "takes_ping_key": bool(key),
        "has_more": checks.has_more,
    }


def _schedule_text(schedule: str | Mapping[str, str]) -> str:
    return schedule if isinstance(schedule, str) else f"every {schedule['every']}"


def _confirmed(
    actor: Actor,
    plan: Plan,
    request: dict[str, Any],
    confirm: str | None,
    apply: Callable[[], Result[Plan]],
    *,
    more: bool = False,
) -> Document:
    """Return a plan with the token that confirms it, or apply it with the token; `more` happens besides its steps."""
    revisions = [
        (job.pk, job.revision) for step in plan.steps for job in (step.job, step.replaced) if job and job.pk
    ]
    revisions += [(-number, 0) for number, step in enumerate(plan.steps) if not step.job.pk]
    if not confirm:
        token = bulk.confirmation_of(actor, request, revisions) if plan.steps or more else None
        return plan_json(plan) | {"applied": False, "confirm": token}
    if stale := bulk.confirmation_problem(actor, confirm, request, revisions):
        raise RefusedError(stale)
    return _applied(plan, apply)


def _applied(plan: Plan, apply: Callable[[], Result[Plan]]) -> Document:
    document = plan_json(plan)
    expect(apply())
    return document | {"applied": True, "confirm": None}


def _check(problems: Collection[Problem]) -> None:
    """Refuse a file with problems, by their places."""
    if not problems:
        return
    errors: dict[str, list[str]] = {}
    for problem in sorted(problems, key=lambda each: each.place):
        text = problem.error.text if problem.error else problem.text
        errors.setdefault(str(problem.place), []).append(text)
    left_out = len(errors) - MAX_PROBLEMS
    shown = dict([*errors.items()][:MAX_PROBLEMS])
    raise RefusedError(invalid_fields(shown | ({"…": [f"{left_out:,} more"]} if left_out > 0 else {})))


@operation
def export_jobs(actor: Actor, *, source: str | None = None, job: Collection[str] = ()) -> Document:
    """Write active jobs as a file for `apply_file`: all, those of one source, or some; secrets are masked."""
    if source is not None and (problem := source_problem(actor, source)):
        raise RefusedError(problem)
    rows = applying.exportable(actor, source)
    if job:
        keys = {job_of(actor, each).pk for each in job}
        rows = [row for row in rows if row.pk in keys]
    return {"jobs": len(rows), "text": applying.export_jobs(actor, rows)}


@operation
def show_document(actor: Actor, job: str) -> Document:
    """Return the document of one job, to be edited and given to `change_by_document`."""
    row = job_of(actor, job)
    if refusal := edit_refusal(row):
        raise RefusedError(refusal)
    text = EDIT_HEADER + applying.export_jobs(actor, [row]).removeprefix(HEADER)
    if not read_jobs([("", text)], row.timezone, clock.now())[0]:
        raise RefusedError(invalid("schedule", "this one cannot be read: set another one"))
    return {"id": row.public_id, "revision": row.revision, "text": text}


@operation
def change_by_document(
    actor: Actor, job: str, *, text: str, name: str = "text", revision: int | None = None
) -> Document:
    """Change a job to match its edited document; `name` is that of the file, for what is wrong with it."""
    row = job_of(actor, job)
    if refusal := edit_refusal(row):
        raise RefusedError(refusal)
    spec = _only_job(row, name, text)
    row.revision = row.revision if revision is None else revision
    return whole_job(expect(applying.edit_as_described(actor, row, spec)), clock.now())


def _only_job(job: Job, name: str, text: str) -> DescribedJob:
    specs, problems = read_jobs([(name, text)], job.timezone, clock.now())
    _check(problems)
    if len(specs) != 1:
        raise RefusedError(invalid("text", f"the document must describe one job, not {len(specs)}"))
    return specs[0]
