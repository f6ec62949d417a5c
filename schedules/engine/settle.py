"""Leases and settling: renew the leases of running calls, and record how runs ended.

Every write requires that the run is still ours, so a late worker changes nothing. Settling does not wait for rows that
another transaction holds, so a held row delays only its own job.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Subquery

from schedules.engine.approvals import add_approvals
from schedules.engine.event_deliveries import publish_failures, publish_prompts, release_deliveries
from schedules.engine.followers import start_followers
from schedules.engine.history import Outcome, add_to_history, failures_of, release_next
from schedules.engine.incidents import handle_failures
from schedules.engine.notices import deliver_answers
from schedules.engine.progress import remember_gates
from schedules.engine.questions import add_questions
from schedules.engine.sql.runs import Started, followers_of, lock_running
from schedules.engine.sql.statements import update_rows
from schedules.models import Cluster, Execution, Job
from schedules.models.executions import HELD_UNTIL, job_was_stopped

Status = Execution.Status

LONGEST_BACKOFF = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=30)
AT_MOST_ONCE = "This job never repeats a run."
_WAS_HELD = f"substr(reason, 1, {len(HELD_UNTIL)}) = '{HELD_UNTIL}'"


class Settled(NamedTuple):
    """The result of a batch: how many outcomes were written, and which ones were not because a row is locked."""

    written: int
    blocked: list[Outcome]


def renew_claims(cluster_id: int, now: datetime, waiting: Collection[int] = ()) -> None:
    """Renew the claims in the cluster's queue: those made since the last returned probe was sent, and `waiting`.

    An older claim has left the queue, but its worker died before it started the run: let its lease expire.
    """
    probe_returned_at = Cluster.objects.filter(pk=cluster_id).values("probe_returned_at")
    claims = Execution.objects.held().filter(
        Q(claimed_at__gte=Subquery(probe_returned_at)) | Q(pk__in=waiting),
        status=Status.CLAIMED,
        cluster_id=cluster_id,
    )
    with transaction.atomic():
        claims.unlocked().update(lease_until=now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS))


def renew(cluster_id: int, execution_ids: Iterable[int], now: datetime) -> None:
    """Renew the leases of these running executions; called by their worker.

    Rows that another transaction holds come last. This waits for them and a rescue does not, so it cannot be overtaken.
    """
    running = Execution.objects.filter(status=Status.RUNNING, cluster_id=cluster_id)
    lease_until = now + timedelta(seconds=settings.CRONTY_LEASE_SECONDS)
    ids = set(execution_ids)
    with transaction.atomic():
        rows = running.filter(pk__in=ids).order_by().select_for_update(skip_locked=True, no_key=True)
        free = set(rows.values_list("pk", flat=True))
        Execution.objects.filter(pk__in=free).update(lease_until=lease_until)
    if ids > free:
        running.filter(pk__in=ids - free).update(lease_until=lease_until)


def retry_at(run: Started, now: datetime, after: timedelta | None = None) -> datetime | None:
    """Return when to retry, after a fixed wait or an exponential backoff with jitter; None if no attempt is left."""
    if run.attempt >= run.attempts:
        return None
    requested = min(after or timedelta(), LONGEST_WAIT)
    if run.fixed_backoff:
        return now + max(run.backoff, requested)
    growth: timedelta = min(run.backoff * 2 ** (run.attempt - 1), max(LONGEST_BACKOFF, run.backoff))
    return now + max(growth * random.uniform(0.75, 1.25), requested)  # noqa: S311  # nosec B311  # jitter, nothing secret


def settle_runs(cluster_id: int, outcomes: Sequence[Outcome]) -> Settled:
    """Write the outcomes of the attempts that are still ours, except those whose run or job is locked."""
    with transaction.atomic():
        mine = _lock_mine(cluster_id, outcomes)
        ours = [
            _respect_stop(outcome, *mine[outcome.execution_id])
            for outcome in outcomes
            if outcome.execution_id in mine
        ]
        update_rows(
            Execution,
            "status = {status}, finished_at = {finished_at}, result = {result}, error = {error},"
            " traceback = {traceback}, available_at = {available_at}, lease_until = NULL,"
            # A run that quiet hours have held was not late, and goes on to say so.
            f" reason = CASE WHEN {{reason}} = '' AND {_WAS_HELD} THEN reason ELSE {{reason}} END,"
            f" lateness = CASE WHEN {_WAS_HELD} THEN NULL ELSE COALESCE({{lateness}}, lateness) END,"
            # The start was committed slightly before the task was called.
            " started_at = COALESCE({started_at}, started_at)",
            (
                "id",
                "status",
                "finished_at",
                "result",
                "error",
                "traceback",
                "reason",
                "available_at",
                "started_at",
                "lateness",
            ),
            [
                (
                    outcome.execution_id,
                    Status.QUEUED if outcome.retry_at else outcome.status,
                    None if outcome.retry_at or outcome.status == Status.WAITING else outcome.finished_at,
                    outcome.result,
                    outcome.error,
                    outcome.traceback,
                    outcome.reason,
                    outcome.retry_at,
                    outcome.started_at,
                    outcome.lateness,
                )
                for outcome in ours
            ],
        )
        if questions := [outcome for outcome in ours if outcome.question]:
            add_questions(questions)
        if gated := [outcome for outcome in ours if outcome.gate]:
            remember_gates(gated)
        if retried := {outcome.execution_id: outcome for outcome in ours if outcome.retry_at}:
            _remember_attempts(retried)
            add_approvals([outcome for outcome in retried.values() if outcome.request])
        if prompts := [
            outcome for outcome in ours if outcome.status == Status.WAITING and not outcome.retry_at
        ]:
            publish_prompts(prompts, prompts[0].finished_at)
        conclude([outcome for outcome in ours if not outcome.retry_at and outcome.status != Status.WAITING])
        if sent := [outcome for outcome in ours if mine[outcome.execution_id][0] == Execution.Cause.EVENT]:
            release_deliveries(sent, sent[0].finished_at)
    others = [outcome for outcome in outcomes if outcome.execution_id not in mine]
    return Settled(len(ours), _still_mine(cluster_id, others) if others else [])


def _remember_attempts(retried: dict[int, Outcome]) -> None:
    """Add attempts that will be retried to the rows of their runs, which the caller has locked."""
    rows = Execution.objects.filter(pk__in=list(retried)).only("attempt", "started_at", "earlier_attempts")
    update_rows(
        Execution,
        "earlier_attempts = {earlier_attempts}",
        ("id", "earlier_attempts"),
        [
            (row.pk, row.attempt_ended(retried[row.pk].finished_at, retried[row.pk].error))
            for row in rows.order_by()
        ],
    )


def _lock_mine(
    cluster_id: int, outcomes: Sequence[Outcome]
) -> dict[int, tuple[str, str | None, datetime | None]]:
    """Lock the executions that this cluster still holds, and their jobs; skip those that are already locked.

    Map each to its cause and its job's status and deletion.
    """
    attempts = {outcome.execution_id: outcome.attempt for outcome in outcomes}
    rows: list[tuple[int, int, str, str | None, datetime | None]] = [*lock_running(cluster_id, attempts)]
    if len(rows) < len(outcomes):
        without_job = (
            Execution.objects.filter(
                pk__in=list(attempts), status=Status.RUNNING, cluster_id=cluster_id, job=None
            )
            .order_by()
            .select_for_update(skip_locked=True, no_key=True)
        )
        rows += [(*row, None, None) for row in without_job.values_list("pk", "attempt", "cause")]
    return {
        pk: (cause, status, deleted_at)
        for pk, attempt, cause, status, deleted_at in rows
        if attempts[pk] == attempt
    }


def _still_mine(cluster_id: int, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of the attempts that this cluster still holds."""
    ids = [outcome.execution_id for outcome in outcomes]
    running = Execution.objects.filter(pk__in=ids, status=Status.RUNNING, cluster_id=cluster_id)
    mine = set(running.order_by().values_list("pk", "attempt"))
    return [outcome for outcome in outcomes if (outcome.execution_id, outcome.attempt) in mine]


def _respect_stop(
    outcome: Outcome, cause: str, job_status: str | None, job_deleted_at: datetime | None
) -> Outcome:
    """Keep the outcome of a run whose job has been stopped, but do not retry it.

    A prompt waits for an agent only if the job was paused, not if it was stopped for good.
    """
    if cause == Execution.Cause.REMINDER:
        outcome = outcome._replace(is_reminder=True)
    if not job_was_stopped(cause, job_status, job_deleted_at):
        return outcome
    if outcome.retry_at:
        return outcome._replace(retry_at=None, reason="The job was stopped before the next attempt.")
    if outcome.status == Status.WAITING and (job_status != Job.Status.PAUSED or job_deleted_at):
        reason = "The job was stopped before an agent finished this prompt."
        return outcome._replace(status=Status.CANCELLED, reason=reason)
    return outcome


def call_off(queued: Iterable[tuple[int, int, int | None]], now: datetime, reason: str) -> None:
    """End queued runs (id, attempt, job) that must not start any more; one that waited for a retry ends as failed."""
    ended: dict[Execution.Status, list[Outcome]] = defaultdict(list)
    for execution_id, attempt, job_id in queued:
        status = Status.FAILED if attempt else Status.CANCELLED
        ended[status].append(Outcome(execution_id, attempt, job_id or 0, status, now, reason=reason))
    for status, outcomes in ended.items():
        rows = Execution.objects.filter(pk__in=[outcome.execution_id for outcome in outcomes])
        rows.end(status, now, reason)
        errors = dict(rows.values_list("pk", "error"))
        conclude([outcome._replace(error=errors[outcome.execution_id]) for outcome in outcomes])


def stop_run(execution_id: int, attempt: int, job_id: int, now: datetime, reason: str) -> bool:
    """End a running execution as cancelled; its worker notices that and stops it. The caller has locked the job."""
    running = Execution.objects.filter(pk=execution_id, attempt=attempt, status=Status.RUNNING)
    if not running.update(status=Status.CANCELLED, finished_at=now, lease_until=None, reason=reason):
        return False
    conclude([Outcome(execution_id, attempt, job_id, Status.CANCELLED, now, reason=reason)])
    return True


def lose(started: Iterable[tuple[int, int, int | None]], now: datetime, reason: str) -> None:
    """End runs (id, attempt, job) whose workers died and that must not start again."""
    outcomes = [
        Outcome(execution_id, attempt, job_id or 0, Status.LOST, now, error=reason)
        for execution_id, attempt, job_id in started
    ]
    runs = Execution.objects.filter(pk__in=[outcome.execution_id for outcome in outcomes])
    runs.end(Status.LOST, now, reason, error=reason)
    conclude([outcome for outcome in outcomes if outcome.job_id])


def conclude(outcomes: Sequence[Outcome]) -> None:
    """Update the jobs after final outcomes: history, end of the job, next waiting run, reactions to failures.

    The caller has locked the jobs.
    """
    if not outcomes:
        return
    now = outcomes[0].finished_at
    by_job = add_to_history(outcomes, ends_jobs=True)
    release_next(by_job, now)
    if answered := [outcome for outcome in outcomes if outcome.deliver_to]:
        deliver_answers(answered, now)
    if followers := followers_of(by_job):
        start_followers(followers, by_job, now)
    if failures := {job_id: count for job_id, ended in by_job.items() if (count := failures_of(ended))}:
        handle_failures(failures, now)
    if failed := [outcome for outcome in outcomes if outcome.is_failure and not outcome.is_reminder]:
        publish_failures(failed, now)
