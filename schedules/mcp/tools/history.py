"""Tools that list what happened: the runs of a period, and the changes of jobs."""

from datetime import UTC, datetime
from typing import Annotated, NotRequired

from pydantic import Field, StrictBool
from typing_extensions import TypedDict

from schedules import clock, limits
from schedules.mcp import answers
from schedules.mcp.answers.job_list import ERROR_LENGTH
from schedules.mcp.answers.job_refusals import ErrorOut, refusal_of
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import PAGE, JobId, PageLimit, page_problem
from schedules.mcp.tools.filters import DEFAULT_PERIOD, Outcome, Query, TaskName, read_filter
from schedules.mcp.tools.periods import From, To, read_period
from schedules.models import Event
from schedules.models.counting import COUNTED
from schedules.result import Err, invalid
from schedules.services.activity import changes_of_event
from schedules.services.change_list import NAMED_JOBS, Change, read_changes
from schedules.services.permissions import not_found
from schedules.services.run_list import RunLine, RunQuery, summarize_runs
from schedules.when.durations import TICK

# The first moment that has a date in every zone.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)


class RunLineOut(TypedDict):
    """A run, or several of a job that ended alike: their number, the first, and the error of the last."""

    at: str
    job_id: str | None
    name: str
    task: str
    status: str
    runs: NotRequired[int]
    first: NotRequired[str]
    error: NotRequired[str]
    reason: NotRequired[str]
    execution_id: int


class RunsOut(TypedDict):
    """The runs of a period, the newest first; `totals` counts all of them, `alerts` those of Cronty's own alerts."""

    runs: list[RunLineOut]
    total: int
    totals: dict[str, int]
    alerts: NotRequired[dict[str, int]]
    since: str
    until: str
    note: NotRequired[str]


def list_runs(
    from_: From = None,
    to: To = None,
    job_id: JobId | None = None,
    query: Query = None,
    task: TaskName = None,
    outcome: Outcome = None,
    limit: PageLimit = None,
) -> RunsOut | ErrorOut:
    """List and count past runs ("yesterday's runs", "how many reminders did you send me last month?": task
    "notify"). Runs of a job that ended alike are one line, unless job_id is given. Default: the last 7 days.
    """
    actor, now = current_actor(), clock.now()
    zone = actor.read_profile().zone
    request = {"job_id": job_id, "task": task}
    filters = read_filter(actor, {"query": query, "task": task, "outcome": outcome})
    if isinstance(filters, Err):
        return refusal_of(filters, request)
    period = read_period(from_, to, zone, now, past=True)
    if isinstance(period, Err):
        return refusal_of(period, request)
    size = PAGE if limit is None else limit
    since, until = _bounds(*period.value, now)
    if problem := page_problem(size, 0) or _period_problem(since, until, now, zone):
        return refusal_of(problem, request)
    job = actor.jobs_with_trash().find(job_id) if job_id else None
    if job_id and job is None:
        return refusal_of(not_found(job_id), request)
    run_query = RunQuery(
        job=job or "",
        outcome=outcome or "",
        task=task or "",
        text=filters.value.text,
        since=since,
        until=until + TICK,
    )
    summary = summarize_runs(actor, run_query, size)
    out: RunsOut = {
        "runs": [_line_out(line, zone) for line in summary.lines],
        "total": sum(summary.counts.values()),
        "totals": dict(summary.counts),
        "since": answers.iso(since, zone),
        "until": answers.iso(until, zone),
    }
    if summary.alerts:
        out["alerts"] = dict(summary.alerts)
    notes = (
        [f"Only the newest {COUNTED:,} runs of this period were looked through."] if summary.is_cut else []
    )
    if summary.are_lines_cut:
        notes.append(f"Only the first {len(summary.lines)} lines are shown; the totals count all.")
    if notes:
        out["note"] = " ".join(notes)
    return out


class ChangeLineOut(TypedDict):
    """What one call or click did to a job, or to several; `undo` is the call that undoes it."""

    at: str
    by: str
    action: str
    job_id: NotRequired[str]
    name: str
    jobs: NotRequired[int]
    changed: list[str]
    undo: NotRequired[str]


class ChangesOut(TypedDict):
    """The changes since a moment, the newest first."""

    changes: list[ChangeLineOut]
    since: str
    note: NotRequired[str]


def list_changes(
    since: Annotated[str | None, Field(description="Like monday. Default: the last 7 days.")] = None,
    mine: Annotated[StrictBool | None, Field(description="Only your own changes.")] = None,
    job_id: JobId | None = None,
) -> ChangesOut | ErrorOut:
    """List who changed which job and how, old → new, and the call that undoes it ("what did you change this
    week?": mine).
    """
    actor, now = current_actor(), clock.now()
    zone = actor.read_profile().zone
    request = {"job_id": job_id}
    period = read_period(since, None, zone, now, past=True, field="since")
    if isinstance(period, Err):
        return refusal_of(period, request)
    start = period.value[0] or now - DEFAULT_PERIOD
    job = actor.jobs_with_trash().find(job_id) if job_id else None
    if job_id and job is None:
        return refusal_of(not_found(job_id), request)
    changes, is_cut = read_changes(actor, start, PAGE, is_own=bool(mine), job=job)
    out: ChangesOut = {
        "changes": [_change_out(change, zone) for change in changes],
        "since": answers.iso(start, zone),
    }
    if is_cut:
        out["note"] = (
            f"Only the newest {len(out['changes'])} changes are listed: ask for one job, or since later."
        )
    return out


def _change_out(change: Change, zone: str) -> ChangeLineOut:
    event, count = change.first, change.jobs
    names = [answers.line(each.subject, 200) for each in change.events]
    out: ChangeLineOut = {
        "at": answers.iso(event.at, zone),
        "by": answers.line(event.actor, 200),
        "action": event.verb if event.undoes is None else f"undo: {event.verb}",
        "name": ", ".join(names) + (f" and {count - NAMED_JOBS} more" if count > NAMED_JOBS else ""),
        "changed": [] if event.verb == "create" else _changed(event, zone),
    }
    if count > 1:
        out["jobs"] = count
    elif event.job:
        out["job_id"] = event.job.public_id
    if change.can_be_undone:
        out["undo"] = answers.undo_call(event.pk)
    return out


def _changed(event: Event, zone: str) -> list[str]:
    return [answers.line(change.text, ERROR_LENGTH) for change in changes_of_event(event, zone)]


def _bounds(since: datetime | None, until: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    end = min(until or now, now)
    return since or max(end, EARLIEST + DEFAULT_PERIOD) - DEFAULT_PERIOD, end


def _period_problem(since: datetime, until: datetime, now: datetime, zone: str) -> Err | None:
    if since > now:
        return invalid("from", f"{answers.iso(since, zone)} is ahead: upcoming lists coming runs")
    if until < since:
        return invalid("to", f"the period ends before it begins at {answers.iso(since, zone)}")
    return None


def _line_out(line: RunLine, zone: str) -> RunLineOut:
    run = line.run
    out: RunLineOut = {
        "at": answers.iso(line.last, zone),
        "job_id": run.job.public_id if run.job else None,
        "name": answers.line(run.job_name, 200),
        "task": run.task,
        "status": run.status,
        "execution_id": run.pk,
    }
    if line.count > 1:
        out |= {"runs": line.count, "first": answers.iso(line.first, zone)}
    if run.error:
        out["error"] = answers.line(run.error, ERROR_LENGTH)
    if run.reason:
        out["reason"] = limits.strip_unprintable(run.reason)
    return out
