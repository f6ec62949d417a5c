"""Outcomes of runs, and how they update their jobs: the history, the counts of runs, and the next run in line."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import F
from django.db.models.functions import Greatest

from schedules.engine.sql.runs import next_in_line, status_after_runs
from schedules.engine.sql.statements import update_rows
from schedules.models import Execution, Job
from schedules.models.executions import OUTCOME_LETTERS
from schedules.tasks.asking import Ask
from schedules.when.triggers import TriggerError

Status = Execution.Status


class Outcome(NamedTuple):
    """How one attempt ended."""

    execution_id: int
    attempt: int
    job_id: int
    status: Execution.Status
    finished_at: datetime
    result: Any = None
    error: str = ""
    traceback: str = ""
    reason: str = ""
    retry_at: datetime | None = None
    started_at: datetime | None = None
    """When the task was called; None if it was not, or if nobody knows."""
    lateness: timedelta | None = None
    """The time between the slot and the call of the first attempt."""
    question: Ask | None = None
    """The question that the run has asked its reader, if any."""
    request: Mapping[str, Any] | None = None
    """The approval that the run asks for, as columns of `Approval`; it waits until `retry_at` at most."""
    deliver_to: str = ""
    """The owner's channel to which the result is sent, if the run succeeded."""
    gate: Mapping[str, Any] | None = None
    """The answer of the prompt's gate that let the run go on."""
    is_reminder: bool = False
    """Whether it only repeats the notification of another run, and so says nothing about the job."""

    @property
    def is_failure(self) -> bool:
        return self.status in (Status.FAILED, Status.LOST)


def add_to_history(outcomes: Sequence[Outcome], *, ends_jobs: bool = False) -> dict[int, list[Outcome]]:
    """Add final outcomes to the columns of their jobs, which the caller has locked; return the outcomes by job.

    With `ends_jobs`, jobs without slots and live runs become completed or failed.
    """
    by_job: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_job[outcome.job_id].append(outcome)
    status = ""
    if ends_jobs:
        # A one-time job whose run was called off before its first attempt also counts as failed.
        failed = [job_id for job_id, ended in by_job.items() if ended[-1].is_failure or not ended[-1].attempt]
        status = f", status = {status_after_runs(failed)}"
    right = "right({0}, 30)" if connection.vendor == "postgresql" else "substr({0}, -30)"
    update_rows(
        Job,
        f"recent = {right.format('recent || {recent}')},"
        " last_run_at = COALESCE({last_run_at}, last_run_at),"
        " last_success_at = COALESCE({last_success_at}, last_success_at),"
        " last_duration = COALESCE({last_duration}, last_duration),"
        " last_error = COALESCE({last_error}, last_error),"
        # A negative value starts a new streak: -1 has no failure, -2 has one failure since the last success.
        " failure_streak = CASE WHEN {failure_streak} < 0 THEN -1 - {failure_streak}"
        f" ELSE failure_streak + {{failure_streak}} END{status}",
        (
            "id",
            "recent",
            "last_run_at",
            "last_success_at",
            "last_duration",
            "last_error",
            "failure_streak",
        ),
        [(job_id, *_summary(ended)) for job_id, ended in by_job.items()],
    )
    return by_job


def release_next(job_ids: Collection[int], now: datetime) -> None:
    """Make the oldest waiting run of each job ready, unless another run is still in progress."""
    if released := next_in_line(job_ids):
        Execution.objects.filter(pk__in=released).update(available_at=now, reason="")


def failures_of(ended: Sequence[Outcome]) -> int:
    """Count the failures after the last success in a list of outcomes."""
    count = 0
    for outcome in _without_reminders(ended):
        count = 0 if outcome.status == Status.SUCCEEDED else count + outcome.is_failure
    return count


def _without_reminders(ended: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in ended if not outcome.is_reminder]


def _summary(
    ended: list[Outcome],
) -> tuple[str, datetime | None, datetime | None, timedelta | None, str | None, int]:
    ended = _without_reminders(ended)
    letters = "".join(OUTCOME_LETTERS.get(outcome.status, "") for outcome in ended)
    failures = failures_of(ended)
    error = None
    for outcome in ended:
        if outcome.status not in (Status.CANCELLED, Status.MISSED):
            error = "" if outcome.status == Status.SUCCEEDED else outcome.error or outcome.reason
    ran_at = max((outcome.finished_at for outcome in ended if outcome.attempt), default=None)
    succeeded = [outcome.finished_at for outcome in ended if outcome.status == Status.SUCCEEDED]
    durations = [outcome.finished_at - outcome.started_at for outcome in ended if outcome.started_at]
    return (
        letters[-30:],
        ran_at,
        max(succeeded, default=None),
        durations[-1] if durations else None,
        error,
        -1 - failures if "S" in letters else failures,
    )


def uncount(job_ids: Iterable[int]) -> None:
    """Subtract one planned run that will not start from each job's counts; a job may be listed several times.

    A run is counted when its slot is claimed.
    """
    runs = Counter(job_ids)
    for times in set(runs.values()):
        counts = {name: Greatest(F(name) - times, 0) for name in ("slot_count", "run_count")}
        Job.objects.filter(pk__in=[pk for pk, count in runs.items() if count == times]).update(**counts)


def uncount_missed(job_ids: Iterable[int]) -> None:
    """Uncount planned runs that were missed, and rearm jobs that had none left; the caller has locked the jobs."""
    missed = list(job_ids)
    uncount(missed)
    for job in Job.objects.filter(pk__in=set(missed), status=Job.Status.RUNNING).exclude(max_runs=None):
        planned = Execution.objects.filter(job=job).exclude(cause__in=Execution.UNPLANNED)
        first, last = planned.order_by("-scheduled_for").values_list("scheduled_for", "last_slot")[0]
        try:
            # A slot in the past is due: the claim decides whether it is missed or caught up on.
            following = job.next_slot(last or first)
        except TriggerError:
            continue
        if following:
            Job.objects.filter(pk=job.pk).update(status=Job.Status.PENDING, next_run_at=following)
