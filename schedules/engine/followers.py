"""Jobs that run after another one: their runs are written in the transaction that ends the other job's run."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from schedules.engine.gaps import reason_of_pause
from schedules.engine.history import Outcome
from schedules.models import AgentRun, Execution, Job
from schedules.models.jobs import why_skipped
from schedules.models.people import is_active
from schedules.tasks.placeholders import has_placeholder
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import After, Ending

Status = Execution.Status

# How many runs may start each other.
DEEPEST_CHAIN = 10
_ENDED = (Status.SUCCEEDED, Status.FAILED, Status.LOST)
_COLUMNS = (
    *("owner_id", "public_id", "name", "task", "args", "kwargs", "status", "deleted_at", "created_at"),
    *(*Job.SLOT_FIELDS, "follows_id", "paused_until", "pause_reason"),
)


def start_followers(
    follower_ids: Collection[int], by_job: Mapping[int, Sequence[Outcome]], now: datetime
) -> None:
    """Write the runs of these jobs that other runs have triggered by ending."""
    ended = {
        outcome.execution_id: outcome
        for outcomes in by_job.values()
        for outcome in outcomes
        if outcome.status in _ENDED and not outcome.is_reminder
    }
    if not ended:
        return
    rows = Job.objects.filter(is_active("owner__"), pk__in=follower_ids, deleted_at=None)
    followers: dict[int, list[tuple[Job, After]]] = defaultdict(list)
    for job in rows.filter(status__in=(Job.Status.PENDING, Job.Status.PAUSED)).only(*_COLUMNS).order_by("pk"):
        if trigger := _after(job):
            followers[job.follows_id or 0].append((job, trigger))
    needs_verdicts = any(trigger.when.is_verdict for pairs in followers.values() for _, trigger in pairs)
    verdicts = _verdicts(ended) if needs_verdicts else {}
    upstream = Execution.objects.filter(pk__in=ended).only("job_name", "result", "error", "given").in_bulk()
    new = []
    for outcome in ended.values():
        for job, trigger in followers[outcome.job_id]:
            if _is_met(trigger.when, outcome, verdicts.get(outcome.execution_id, "")):
                row = upstream[outcome.execution_id]
                new.append(_run_of(job, trigger, outcome, row, verdicts.get(outcome.execution_id, ""), now))
    Execution.objects.bulk_create(new)


def depth_of(given: Mapping[str, Any] | None) -> int:
    """Return how many runs have started each other before the one with this `given`."""
    depth = (given or {}).get("depth", 0)
    return depth if isinstance(depth, int) else 0


def _after(job: Job) -> After | None:
    try:
        trigger = job.undelayed_trigger
    except TriggerError:
        return None
    return trigger if isinstance(trigger, After) else None


def _is_met(when: Ending, outcome: Outcome, verdict: str) -> bool:
    if when == Ending.ANY:
        return True
    if when.is_verdict:
        return when == verdict
    return (when == Ending.SUCCEEDED) == (outcome.status == Status.SUCCEEDED)


def _verdicts(ended: Mapping[int, Outcome]) -> dict[int, str]:
    """Return the verdicts of the agents' runs, by run."""
    runs = AgentRun.objects.filter(execution__in=list(ended)).order_by("execution_id", "attempt")
    return dict(runs.values_list("execution", "verdict"))


def _run_of(
    job: Job, trigger: After, outcome: Outcome, upstream: Execution, verdict: str, now: datetime
) -> Execution:
    due_at = outcome.finished_at + trigger.delay
    depth = depth_of(upstream.given) + 1
    row = Execution.of(job, due_at, cause=Execution.Cause.AFTER, origin=outcome.execution_id)
    row.given = {"depth": depth}
    if has_placeholder([job.args, job.kwargs]):
        row.given["upstream"] = {
            "run": outcome.execution_id,
            "job": upstream.job_name,
            "status": outcome.status.value,
            "result": upstream.result,
            "error": upstream.error,
            "verdict": verdict,
        }
    if depth > DEEPEST_CHAIN:
        row.reason = f"Stopped: {DEEPEST_CHAIN} runs had started each other before this one."
    elif job.status == Job.Status.PAUSED:
        row.reason = reason_of_pause(job)
    else:
        row.reason = why_skipped(job, due_at)
    if row.reason:
        row.status, row.finished_at = Status.SKIPPED, now
    else:
        row.available_at = due_at
    return row
