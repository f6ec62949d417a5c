"""Tools for jobs: schedule, list, cancel and show registered tasks."""

from typing import Annotated, Any

from pydantic import Field

from schedules import clock, services
from schedules.mcp import answers
from schedules.mcp.answers.jobs import (
    CancelOut,
    ErrorOut,
    JobsOut,
    ScheduledOut,
    StatusOut,
    job_out,
    jobs_out,
    refused,
    refused_cancel,
    status_out,
    summary_out,
    summary_rows,
)
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import (
    PAGE,
    Attempts,
    Backoff,
    CatchUp,
    EndsAt,
    IdempotencyKey,
    JobId,
    MaxRuns,
    Overlap,
    PageLimit,
    PageOffset,
    Timeout,
    Timezone,
    TriggerConfig,
    TriggerType,
    Words,
    given_policies,
    page_problem,
    read_policies,
    refuse,
    zone_notes,
)
from schedules.mcp.tools.filters import HadOutcome, OfStatus, OfTask, Query, Since, Tag, read_filter
from schedules.mcp.tools.triggers import local_text, read_trigger
from schedules.models import Job
from schedules.models.counting import COUNTED, CountUpTo, count_beside, count_up_to
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import standings_of
from schedules.result import Code, Err, Ok
from schedules.services.filters import JobFilter
from schedules.services.jobs.validation import usable_tasks


def schedule_job(
    name: Annotated[str, Field(description="A name that the user will recognise.")],
    task: Annotated[
        str,
        Field(
            description='A registered task: "webhook", "notify", "prompt", or another of tasks://registered.'
        ),
    ],
    trigger_type: TriggerType,
    trigger_config: TriggerConfig,
    args: Annotated[list[Any] | None, Field(description="Its positional arguments.")] = None,
    kwargs: Annotated[
        dict[str, Any] | None,
        Field(description='Its named arguments, like {"url": "https://example.org"} for webhook.'),
    ] = None,
    max_runs: MaxRuns = None,
    ends_at: EndsAt = None,
    attempts: Attempts = None,
    backoff: Backoff = None,
    timeout: Timeout = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    timezone: Timezone = None,
    tags: Annotated[Words | None, Field(description="Tags to find it by.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> ScheduledOut | ErrorOut:
    """Schedule a registered task, like a webhook, once, at an interval or by cron. For a reminder on the
    user's phone, use schedule_notification. For one prompt to an agent, use `schedule`.
    """
    actor = current_actor()
    given = {
        "task": task,
        "trigger_type": trigger_type,
        "trigger_config": trigger_config,
        "max_runs": max_runs,
    }
    tagged: dict[str, Any] = {"tags": tags} if tags else {}
    profile = actor.read_profile()
    sent: dict[str, Any] = {"name": name, "args": args or [], "kwargs": kwargs or {}}
    what = dict(sent)
    if task == "notify" and profile.default_topic and len(what["args"]) < 2:
        what["kwargs"] = {"topic": profile.default_topic} | what["kwargs"]
    zone = timezone if timezone is not None else profile.zone
    when = read_trigger(trigger_type, trigger_config, zone, clock.now())
    asked = given_policies(
        ends_at=ends_at,
        attempts=attempts,
        backoff=backoff,
        timeout=timeout,
        overlap=overlap,
        catch_up=catch_up,
    )
    policies = read_policies(asked, zone, clock.now())
    if isinstance(when, Err):
        # An unknown task is the more important mistake, so report it first.
        usable = [each.name for each in usable_tasks(actor)]
        mistake = when if task in usable else unknown_task(task)
        return refused(mistake, given | {"timezone": zone, "tasks": usable})
    if isinstance(policies, Err):
        return refused(policies, given | {"timezone": zone})
    made = services.schedule(
        actor,
        profile=profile,
        idempotency_key=idempotency_key,
        request=given | sent | {"timezone": timezone} | asked | tagged,
        **what,
        **tagged,
        **policies.value,
        task=task,
        max_runs=max_runs,
        **when.value,
    )
    match made:
        case Ok(scheduled):
            notes = zone_notes(profile, timezone, local_text(trigger_type, trigger_config))
            return {**job_out(scheduled.job), **answers.advice_on(scheduled, *notes)}
        case error:
            usable = [each.name for each in usable_tasks(actor)]
            return refused(error, given | {"timezone": zone, "tasks": usable})


def list_jobs(
    status: OfStatus = None,
    query: Query = None,
    tag: Tag = None,
    task: OfTask = None,
    outcome: HadOutcome = None,
    since: Since = None,
    limit: PageLimit = None,
    offset: PageOffset = None,
) -> JobsOut | ErrorOut:
    """Find the user's jobs, the next to run first, however they were made. "What failed this week?" is outcome
    "failed" since "7 days ago". `outcome` and `error` are those of the last run. To see coming runs, use
    `upcoming`.
    """
    size, start = PAGE if limit is None else limit, offset or 0
    given = {"status": status, "task": task}
    if status is not None and status not in Job.Status.values:
        return refused(refuse("status", "unknown"), given)
    if problem := page_problem(size, start):
        return refused(problem, given)
    actor = current_actor()
    wanted = read_filter(actor, query=query, tag=tag, task=task, outcome=outcome, since=since)
    if isinstance(wanted, Err):
        return refused(wanted, given)
    return _page(actor, status, wanted.value, size, start)


def _page(actor: services.Actor, status: str | None, wanted: JobFilter, size: int, start: int) -> JobsOut:
    jobs = actor.jobs()
    listed = jobs if status is None else jobs.listed(status)
    # A prompt that is due and that no agent has claimed is pending.
    unclaimed = []
    if status in (Job.Status.PENDING, Job.Status.RUNNING):
        unclaimed = services.unclaimed_jobs(actor, clock.now())
    if unclaimed and status == Job.Status.RUNNING:
        listed = listed.exclude(pk__in=unclaimed)
    is_first = bool(unclaimed) and status == Job.Status.PENDING
    parts = [jobs.filter(pk__in=unclaimed), listed] if is_first else [listed]
    matching, is_cut = wanted.matching_runs(actor.executions())
    if wanted:
        rows, total = _found_page([wanted.applied_to(part, matching) for part in parts], size, start)
    else:
        rows, total = _listed_page(parts, jobs, status, size, start)
    if status is None and any(row.task == "prompt" and row.status == Job.Status.RUNNING for row in rows):
        unclaimed = services.unclaimed_jobs(actor, clock.now())
    standings = standings_of(rows, clock.now())
    shown = [summary_out(row, standings[row.pk], unclaimed, matching.get(row.pk)) for row in rows]
    cut = []
    if wanted and count_up_to(listed.order_by()) > COUNTED:
        cut.append(f"Only the first {COUNTED:,} jobs were looked through: give a status to see others.")
    if is_cut:
        cut.append(answers.OLDER_RUNS)
    return jobs_out(shown, total, start, cut)


def _found_page(parts: list[JobQuerySet], size: int, start: int) -> tuple[list[Any], int]:
    """Read a page of what a filter finds; all keys at once, because to find them again for the total takes as long."""
    keys = [pk for part in parts for pk in part.values_list("pk", flat=True)]
    rows = {row.pk: row for row in summary_rows(Job.objects.kept().filter(pk__in=keys[start : start + size]))}
    return [rows[pk] for pk in keys[start : start + size] if pk in rows], len(keys)


def _listed_page(
    parts: list[JobQuerySet], jobs: JobQuerySet, status: str | None, size: int, start: int
) -> tuple[list[Any], int]:
    """Read a page of all jobs, or of those in a state, in the order of an index."""
    counted = parts
    if status is not None and status != Job.Status.RUNNING:
        # By the state alone and in no order, SQLite counts inside its index of states.
        counted = [*parts[:-1], jobs.in_state(status)]
    rows: list[Any] = []
    total, before = 0, start
    # The list of all jobs is asked for most often: its count needs no query of its own.
    more = {"total": CountUpTo(jobs.order_by())} if status is None else {}
    for part, same in zip(parts, counted, strict=True):
        room = size - len(rows)
        page = list(summary_rows(part, **more)[before : before + room]) if room else []
        if more and page:
            count = page[0].total
        else:
            count = count_beside(page, same.order_by(), size=room, start=before)
        rows += page
        total, before = total + count, max(0, before - count)
    return rows, total


def cancel_job(job_id: JobId) -> CancelOut:
    """End a job for good; a run in progress finishes. To stop it for a while, use pause_job. restore_job
    undoes this.
    """
    actor = current_actor()
    match services.cancel(actor, job_id):
        case Ok():
            return {"cancelled": True, "job_id": job_id}
        case Err(code=Code.WRONG_STATE):
            status = actor.jobs().called(job_id).values_list("status", flat=True).first()
            if status == Job.Status.CANCELLED:
                return {"cancelled": True, "job_id": job_id}
            return {"cancelled": False, "job_id": job_id, "error": f"Job already {status}: {job_id}"}
        case error:
            return refused_cancel(error, {"job_id": job_id})


def job_status(job_id: JobId) -> StatusOut | ErrorOut:
    """Show one job: schedule, next runs, arguments, policies, last error, and its last ten runs ("did it
    run?"). To explain one run, use `why`.
    """
    job = current_actor().job(job_id)
    if job is None:
        return refused(services.permissions.not_found(job_id), {"job_id": job_id})
    return status_out(job)


def unknown_task(name: str) -> Err:
    return refuse("task", f"Unknown task: {name}")
