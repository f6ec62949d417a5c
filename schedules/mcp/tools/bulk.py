"""The tool that changes many jobs at once, after a person has agreed."""

from typing import Annotated, Any

from pydantic import Field

from schedules import clock
from schedules.mcp import answers
from schedules.mcp.answers.bulk import ChangedJobsOut, WouldChangeOut, changed_out, would_change_out
from schedules.mcp.answers.jobs import ErrorOut, refused
from schedules.mcp.auth import current_actor
from schedules.mcp.tools.arguments import read_moment, refuse
from schedules.mcp.tools.filters import HadOutcome, OfStatus, OfTask, Query, Since, Tag, read_filter
from schedules.models import Job
from schedules.result import Code, Err, Ok
from schedules.services.jobs import bulk
from schedules.services.jobs.states import pause_problem

ACTIONS = [*bulk.STATUSES, "undo"]


def bulk_jobs(
    action: Annotated[str, Field(description="What to do with them.", json_schema_extra={"enum": ACTIONS})],
    status: OfStatus = None,
    query: Query = None,
    tag: Tag = None,
    task: OfTask = None,
    outcome: HadOutcome = None,
    since: Since = None,
    until: Annotated[str | None, Field(description='End of a pause, like "monday" (its start).')] = None,
    reason: Annotated[str | None, Field(description="Why they are paused.")] = None,
    confirm: Annotated[str | None, Field(description="From the first answer, or from undo.")] = None,
) -> WouldChangeOut | ChangedJobsOut | ErrorOut:
    """Do the same to all jobs that match, up to 500 ("pause everything tagged home until Monday"). The first call
    changes nothing: it answers what it would change. Show that to the user, then repeat the call with `confirm`.
    For one job, use pause_job or cancel_job.
    """
    actor, now = current_actor(), clock.now()
    given = {"status": status, "task": task}
    if action == "undo":
        # Accept the whole call that the answer shows, too.
        match bulk.undo(actor, (confirm or "").rpartition('confirm="')[2].rstrip('")')):
            case Ok(done):
                return changed_out(action, done)
            case error:
                return refused(error, given)
    if problem := _problem(action, status, until, reason):
        return refused(problem, given)
    wanted = read_filter(actor, query=query, tag=tag, task=task, outcome=outcome, since=since)
    if isinstance(wanted, Err):
        return refused(wanted, given)
    end = None
    if until is not None:
        read = read_moment(until, actor.read_profile().zone, now, "until", may_be_day=True)
        if isinstance(read, Err):
            return refused(read, given)
        end = read.value
    if problem := pause_problem(reason or "", end, now):
        return refused(problem, given)
    jobs = bulk.changeable(actor, action)
    if status is not None:
        jobs = jobs.in_state(status)
    matching, is_cut = wanted.value.matching_runs(actor.executions())
    if wanted.value:
        jobs = wanted.value.applied_to(jobs, matching)
    rows = list(jobs.values_list("pk", "public_id", "name", "revision")[: bulk.MOST_JOBS + 1])
    if len(rows) > bulk.MOST_JOBS:
        return refused(
            Err(
                Code.CONFLICT, f"More than {bulk.MOST_JOBS} jobs match: choose fewer, by tag, task or query."
            ),
            given,
        )
    keys, named = [row[0] for row in rows], [(public_id, name) for _, public_id, name, _ in rows]
    seen = [(pk, revision) for pk, _, _, revision in rows]
    # A moment in words moves on between the two calls, so the words are confirmed and not the moment.
    request: dict[str, Any] = {
        "action": action,
        "until": until,
        "reason": reason,
        "filter": [status, query, tag, task, outcome, since],
    }
    token = bulk.confirmation_of(actor, request, seen)
    ending = bulk.count_ending(keys, end) if end else 0
    paused_until = answers.iso_or_none(end, actor.read_profile().zone)
    if confirm is None or not rows:
        return would_change_out(named, token, is_cut=is_cut, paused_until=paused_until, ending=ending)
    if stale := bulk.confirmation_problem(actor, confirm, request, seen):
        return would_change_out(
            named, token, stale.message, is_cut=is_cut, paused_until=paused_until, ending=ending
        )
    match bulk.change_jobs(actor, action, keys, reason=reason or "", until=end):
        case Ok(done):
            return changed_out(action, done, paused_until=paused_until, ending=ending)
        case error:
            return refused(error, given)


def _problem(action: str, status: str | None, until: str | None, reason: str | None) -> Err | None:
    if action not in bulk.STATUSES:
        return refuse("action", f"choose one of: {', '.join(ACTIONS)}")
    if status is not None and status not in Job.Status.values:
        return refuse("status", "unknown")
    if action != "pause" and (until is not None or reason is not None):
        return refuse("until", "only a pause has an end and a reason")
    return None
