"""Notices: notification jobs that Cronty itself creates, so that they are retried and in the ledger."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schedules import limits
from schedules.models import Job
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id


def create_notice(
    owner_id: int,
    name: str,
    arguments: Mapping[str, Any],
    timezone: str,
    now: datetime,
    *,
    label: str = "",
    at: datetime | None = None,
) -> Job:
    """Create a job that sends a notification now, or at a moment; `arguments` are those of the task notify."""
    name = name[: limits.NAME_LENGTH]
    notice = Job(
        owner_id=owner_id,
        public_id=new_public_id(NOTICE_PREFIX, now),
        name=name,
        name_skeleton=skeleton(name),
        label=label,
        task="notify",
        kwargs=dict(arguments),
        trigger_type=Job.TriggerType.ONCE,
        run_at=at or now,
        next_run_at=at or now,
        timezone=timezone,
        attempts=5,
        made_by="cronty",
        created_at=now,
        updated_at=now,
    )
    notice.search_text = searchable_text(notice)
    notice.save(force_insert=True)
    return notice
