"""Outcomes of runs, and the columns of a job that summarise them: recent outcomes, failure streak, last error, success and duration."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from schedules.engine.sql.queries import status_after_runs
from schedules.engine.sql.row_updates import update_rows
from schedules.models import Execution, Job
from schedules.models.executions import OUTCOME_LETTERS

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


def failures_of(ended: Sequence[Outcome]) -> int:
    """Count the failures after the last success in a list of outcomes."""
    count = 0
    for outcome in ended:
        count = 0 if outcome.status == Status.SUCCEEDED else count + outcome.is_failure
    return count


def _summary(
    ended: list[Outcome],
) -> tuple[str, datetime | None, datetime | None, timedelta | None, str | None, int]:
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
