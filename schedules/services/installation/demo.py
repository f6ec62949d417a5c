"""Demo jobs for a new user: one of each kind."""

import secrets
from datetime import timedelta
from typing import Any

from django.db import transaction

from schedules.models import Job
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.creation import schedule
from schedules.services.jobs.states import delete
from schedules.services.people.profiles import profile_of
from schedules.services.permissions import Actor
from schedules.services.quotas import wait_for_turn

DEMO_TAG = "demo"
# Demo jobs are found by their id, because anybody may use the tag.
_PREFIX = "demo"


def add_demo_jobs(actor: Actor) -> Result[int]:
    """Add the demo jobs, all or none, unless some exist; return how many."""
    with transaction.atomic():
        wait_for_turn(actor.read_profile())
        if _existing(actor).exists():
            return Err(Code.DEMO_JOBS_EXIST, DEMO_TAG)
        jobs = _demo_jobs(actor)
        for fields in jobs:
            created = schedule(actor, prefix=_PREFIX, tags=[DEMO_TAG], **fields)
            if isinstance(created, Err):
                transaction.set_rollback(True)
                return created
    return Ok(len(jobs))


def remove_demo_jobs(actor: Actor) -> int:
    """Move the demo jobs to the trash; return how many."""
    job_ids = _existing(actor).values_list("public_id", flat=True)
    return sum(isinstance(delete(actor, job_id), Ok) for job_id in job_ids)


def _existing(actor: Actor) -> JobQuerySet:
    return actor.jobs().owned_by(actor.user).filter(public_id__startswith=f"{_PREFIX}_")


def _demo_jobs(actor: Actor) -> list[dict[str, Any]]:
    """Describe one job of each kind; those that send something to other hosts start paused."""
    topic = profile_of(actor.user).default_topic or f"cronty-demo-{secrets.token_hex(4)}"
    cron = Job.TriggerType.CRON
    return [
        {
            "name": "Stand-up reminder",
            "task": "notify",
            "kwargs": {"topic": topic, "message": "Stand-up in five minutes."},
            "trigger_type": cron,
            "cron": "55 9 * * 1-5",
            "paused": True,
        },
        {
            "name": "Morning briefing",
            "task": "prompt",
            "kwargs": {"prompt": "Summarise my unread mail and today's calendar in five lines."},
            "trigger_type": cron,
            "cron": "0 8 * * 1-5",
        },
        {
            "name": "Uptime ping",
            "task": "webhook",
            "kwargs": {"url": "https://example.com/", "method": "GET"},
            "trigger_type": Job.TriggerType.INTERVAL,
            "every": timedelta(minutes=45),
            "paused": True,
        },
    ]
