"""What happens when a job fails: its owner is told when that begins, and one that only ever fails is paused."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from schedules.engine.gaps import account_for, withdraw
from schedules.engine.outcomes import Outcome, failures_of
from schedules.models import Event, Job
from schedules.models.jobs import NOTICE_PREFIX, new_public_id

LONGEST_NOTICE = 2000


def answer_failures(ended: Mapping[int, Sequence[Outcome]], now: datetime) -> None:
    """Pause the jobs among these that reached their limit of failures in a row, and tell the owners."""
    failures = {job_id: count for job_id, outcomes in ended.items() if (count := failures_of(outcomes))}
    if not failures:
        return
    paused = _pause_worn_out(failures, now)
    watched = Job.objects.kept().filter(pk__in=failures, owner__cronty_profile__failure_topic__gt="")
    news: dict[int, list[Job]] = defaultdict(list)
    for job in watched.select_related("owner__cronty_profile").order_by("pk"):
        if job.pk in paused or _begins_to_fail(job, failures[job.pk]):
            news[job.owner_id].append(job)
    for jobs in news.values():
        _tell_owner(jobs, now)


def note(job: Job, verb: str, now: datetime, after: dict[str, Any]) -> None:
    """Write the engine's own doing into the trail."""
    Event.objects.create(
        at=now,
        owner_id=job.owner_id,
        actor="engine",
        door=Event.Door.ENGINE,
        verb=verb,
        job=job,
        subject=job.name,
        after=after,
    )


def _pause_worn_out(job_ids: Collection[int], now: datetime) -> set[int]:
    worn_out = list(
        Job.objects.armed()
        .filter(pk__in=job_ids, pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        .select_for_update(of=("self",))
    )
    for job in worn_out:
        streak = job.failure_streak
        reason = (
            f"Paused after {streak} failures in a row." if streak > 1 else "Paused after its first failure."
        )
        Job.objects.filter(pk=job.pk).update(
            status=Job.Status.PAUSED,
            next_run_at=None,
            paused_at=now,
            paused_until=None,
            pause_reason=reason,
            revision=F("revision") + 1,
            updated_at=now,
        )
        account_for(job, job.next_run_at, now, "The job was paused before it could run.")
        withdraw(job, now, "paused")
        note(job, "pause", now, {"reason": reason, "error": job.last_error[:500]})
    return {job.pk for job in worn_out}


def _begins_to_fail(job: Job, failures: int) -> bool:
    """Tell a first failure since a success from one in a row, or of a job that somebody stopped meanwhile."""
    is_stopped = job.status in (Job.Status.PAUSED, Job.Status.CANCELLED)
    # What could not be told at this topic, such as these notices, cannot be told of there either.
    is_unheard = job.task == "notify" and job.argument("topic") == job.owner.cronty_profile.failure_topic
    return job.failure_streak <= failures and not is_stopped and not is_unheard


def _tell_owner(jobs: Sequence[Job], now: datetime) -> None:
    """Queue a notification like any other: it is retried, and the ledger shows whether it arrived."""
    first = jobs[0]
    words = [f"{job.name}: " + f"{job.pause_reason}\n{job.last_error}".strip() for job in jobs]
    title = "A job was paused" if first.status == Job.Status.PAUSED else "A job failed"
    Job.objects.create(
        owner_id=first.owner_id,
        public_id=new_public_id(NOTICE_PREFIX, now),
        name=f"Failure notice: {first.name}"[:200],
        task="notify",
        kwargs={
            "message": "\n".join(words)[:LONGEST_NOTICE],
            "topic": first.owner.cronty_profile.failure_topic,
            "title": title if len(jobs) == 1 else f"{len(jobs)} jobs failed",
            "priority": 4,
            "tags": ["warning"],
        },
        trigger_type=Job.TriggerType.ONCE,
        run_at=now,
        next_run_at=now,
        attempts=5,
        made_by="cronty",
        created_at=now,
        updated_at=now,
    )
