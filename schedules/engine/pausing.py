"""What happens to a job that only ever fails: it is paused, and its owner is told."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from schedules.engine.gaps import account_for, withdraw
from schedules.models import Event, Job, Profile
from schedules.models.jobs import new_public_id


def pause_failing(job_ids: Sequence[int], now: datetime) -> None:
    """Pause the jobs among these that reached their limit of failures in a row."""
    if not job_ids:
        return
    worn_out = list(
        Job.objects.armed()
        .filter(pk__in=job_ids, pause_after_failures__gt=0, failure_streak__gte=F("pause_after_failures"))
        .select_for_update(of=("self",))
    )
    for job in worn_out:
        reason = f"Paused after {job.failure_streak} failures in a row."
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
        withdraw(job, now, "The job was paused before it could run.")
        note(job, "pause", now, {"reason": reason, "error": job.last_error[:500]})
        _tell_owner(job, reason, now)


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


def _tell_owner(job: Job, reason: str, now: datetime) -> None:
    """Queue a notification like any other: it is retried, and the ledger shows whether it arrived."""
    topic = Profile.objects.filter(user_id=job.owner_id).values_list("failure_topic", flat=True).first()
    if not topic:
        return
    Job.objects.create(
        owner_id=job.owner_id,
        public_id=new_public_id("msg", now),
        name=f"Failure notice: {job.name}"[:200],
        task="notify",
        kwargs={
            "message": f"{job.name}: {reason}\n{job.last_error}"[:2000],
            "topic": topic,
            "title": "A job was paused",
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
