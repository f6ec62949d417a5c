"""After a restore from a backup: skip or catch up on slots and runs that may have been delivered since the backup."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F, Max, Q

from schedules.engine.clusters import remember_machine_start
from schedules.engine.gaps import account_for
from schedules.engine.history import Outcome, add_to_history
from schedules.engine.rescue import rescue, unclaim
from schedules.models import Cluster, Event, Execution, Job
from schedules.when.triggers import TriggerError

Status = Execution.Status

BATCH = 500


@dataclass(frozen=True, slots=True)
class Accounted:
    """How many jobs and runs a restore has changed."""

    jobs: int = 0
    runs: int = 0


def newest_trace() -> datetime | None:
    """Return when the database was last written to, for backups that do not record when they were made."""
    columns = [
        (Cluster, "last_seen_at"),
        (Execution, "claimed_at"),
        (Execution, "finished_at"),
        (Event, "at"),
        (Job, "updated_at"),
    ]
    moments = (model._default_manager.aggregate(at=Max(name))["at"] for model, name in columns)
    return max(filter(None, moments), default=None)


def skip_since_backup(backed_up_at: datetime, now: datetime) -> Accounted:
    """Skip what was due between the backup and now, and end the runs that were under way: nothing is repeated."""
    reason = reason_of(backed_up_at)
    with transaction.atomic():
        retire_clusters(reason)
        # The runs for this machine start were in the replaced database.
        remember_machine_start(now)
        ended = _end_runs(now, reason)
        jobs = [job for job in Job.objects.due(now).select_for_update() if _skip_slots(job, now, reason)]
        _record({job.pk: job for job in (*ended, *jobs)}.values(), now, reason, "skip")
    return Accounted(len(jobs), len(ended))


def catch_up_since_backup(backed_up_at: datetime, now: datetime) -> Accounted:
    """End all leases; the next claim catches up on what is due, under the policies of each job."""
    reason = reason_of(backed_up_at)
    with transaction.atomic():
        retire_clusters(reason)
        jobs = list(Job.objects.due(now))
        held = Execution.objects.held()
        under_way = [row.job for row in held.select_related("job") if row.job]
        unclaim(held, now)
        while rescue(held.filter(status=Status.RUNNING), now, reason):
            pass
        _record({job.pk: job for job in (*under_way, *jobs)}.values(), now, reason, "catch-up")
    return Accounted(len(jobs), len(under_way))


def reason_of(backed_up_at: datetime) -> str:
    return f"Restored from a backup of {backed_up_at:%Y-%m-%d %H:%M:%S} UTC."


def retire_clusters(reason: str) -> None:
    Cluster.objects.filter(stopped_at=None).update(stopped_at=F("last_seen_at"), note=reason)


def _end_runs(now: datetime, reason: str) -> list[Job]:
    """End every run that may have gone on since the backup: missed if it had not started, else lost."""
    # Leave later retries: they have not happened in the replaced database, either.
    open_runs = Execution.objects.live().filter(~Q(status=Status.QUEUED, available_at__gt=now))
    jobs: list[Job] = []
    while rows := list(open_runs.select_related("job").order_by("pk")[:BATCH]):
        missed = [row for row in rows if row.attempt == 0]
        lost = [row for row in rows if row.attempt]
        Execution.objects.filter(pk__in=[row.pk for row in missed]).end(Status.MISSED, now, reason)
        Execution.objects.filter(pk__in=[row.pk for row in lost]).end(Status.LOST, now, reason, error=reason)
        # Restore the failure streaks: nothing has failed, so nobody is notified, no job is paused, and the next failure is
        # the first of its series.
        streaks = {row.job.pk: row.job.failure_streak for row in rows if row.job}
        add_to_history(
            [
                Outcome(row.pk, row.attempt, row.job_id, status, now, error=reason if row.attempt else "")
                for status, ended in ((Status.MISSED, missed), (Status.LOST, lost))
                for row in ended
                if row.job_id
            ],
            ends_jobs=True,
        )
        for streak in set(streaks.values()):
            ids = [job_id for job_id, before in streaks.items() if before == streak]
            Job.objects.filter(pk__in=ids).update(failure_streak=streak)
        jobs += [row.job for row in rows if row.job]
    return jobs


def _skip_slots(job: Job, now: datetime, reason: str) -> bool:
    """Write a gap for the due slots of a job, and move it to its next slot; return False if it cannot be read."""
    try:
        following = job.next_slot(now)
    except TriggerError:
        # The claim pauses such a job.
        return False
    account_for(job, job.next_run_at, now, reason)
    status = Job.Status.PENDING if following else Job.Status.COMPLETED
    Job.objects.filter(pk=job.pk).update(
        next_run_at=following, status=status, revision=F("revision") + 1, updated_at=now
    )
    return True


def _record(jobs: Iterable[Job], now: datetime, reason: str, slots: str) -> None:
    Event.objects.bulk_create(
        [
            Event(
                at=now,
                owner_id=job.owner_id,
                actor="operator",
                door=Event.Door.COMMAND,
                verb="restore backup",
                job=job,
                subject=job.name,
                after={"reason": reason, "slots": slots},
            )
            for job in jobs
        ],
        batch_size=BATCH,
    )
