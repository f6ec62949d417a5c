"""Sample data: jobs in every state with their runs."""

import random
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from schedules import clock
from schedules.models import Event, Execution, Job
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory, TokenFactory

LETTERS = {"S": "succeeded", "F": "failed", "L": "lost", "C": "cancelled"}
GOOD = "S" * 30
DAY = timedelta(days=1)


def fill(owner: User, *, with_worker: bool = True) -> list[Job]:
    """Create a dozen jobs for a person, each with the runs that its history shows."""
    now = clock.now().replace(microsecond=0)
    if with_worker:
        ClusterFactory(host="tea-kettle", last_seen_at=now + timedelta(hours=1), claimed_count=12_345)
    jobs = [_make(owner, now, **each) for each in _described(now)]
    running = next(job for job in jobs if job.name == "Summarise inbox")
    ExecutionFactory(job=running, status="running", started_at=now, scheduled_for=now, attempt=1)
    prompt = next(job for job in jobs if job.name == "Morning briefing")
    ExecutionFactory(job=prompt, status="waiting", attempt=1, scheduled_for=now - timedelta(minutes=12))
    JobFactory(owner=owner, name="Old newsletter", deleted_at=now - DAY)
    TokenFactory(owner=owner, name="laptop", last_used_at=now - timedelta(minutes=2))
    for job in jobs:
        Event.objects.create(
            at=now - 3 * DAY,
            owner=owner,
            actor=job.made_by,
            door="mcp",
            verb="create",
            job=job,
            subject=job.name,
        )
    return jobs


def _described(now: datetime) -> list[dict[str, Any]]:
    hour = timedelta(hours=1)
    hook = {
        "task": "webhook",
        "kwargs": {"url": "https://example.com/hook", "headers": {"Authorization": "Bearer x"}},
    }
    ask = {
        "task": "prompt",
        "kwargs": {"prompt": "Summarise my unread mail and today's calendar in five lines."},
    }
    push = {"task": "notify", "kwargs": {"topic": "home-4711", "message": "Time for it!"}}
    error = "example.com answered 503: Service Unavailable"
    return [
        {
            "name": "Price scraper",
            "cron": "*/15 * * * *",
            "tags": ["agent", "scrape"],
            "made_by": "cursor",
            **hook,
            "recent": "SSSSSSSSSFSSSSSSSSSSSSSSSSSFFF",
            "failure_streak": 3,
            "last_error": error,
            "ago": hour,
        },
        {
            "name": "Nightly DB backup",
            "cron": "30 2 * * *",
            "timezone": "Europe/Berlin",
            "tags": ["backup", "db"],
            **hook,
            "recent": GOOD[:28] + "SF",
            "failure_streak": 1,
            "last_error": error,
            "ago": 23 * hour,
        },
        {
            "name": "Summarise inbox",
            "cron": "0 17 * * 1-5",
            "timezone": "Europe/Berlin",
            "tags": ["agent", "mail"],
            "recent": "SSSSSSSSSSSFSSSSSSFCFSSSFFSSSS",
            "ago": DAY,
            "made_by": "laptop",
            **ask,
        },
        {
            "name": "Uptime ping",
            "cron": "* * * * *",
            "tags": ["infra"],
            "recent": GOOD,
            "ago": timedelta(seconds=50),
            **hook,
        },
        {
            "name": "Cleanup temp files",
            "cron": "0 */6 * * *",
            "tags": ["infra"],
            "recent": GOOD,
            "ago": 2 * hour,
            **hook,
        },
        {
            "name": "Renew certificates",
            "cron": "0 3 * * 1",
            "tags": ["infra"],
            "recent": GOOD,
            "ago": 5 * DAY,
            **hook,
        },
        {
            "name": "Morning briefing",
            "cron": "0 8 * * 1-5",
            "timezone": "Europe/Berlin",
            "tags": ["agent", "daily"],
            "recent": "SSFSSSSSFSSSSSSSSSSSSSSSSSSSSS",
            "ago": DAY,
            "made_by": "laptop",
            **ask,
        },
        {
            "name": "Stand-up reminder",
            "cron": "55 9 * * 1-5",
            "timezone": "Europe/Berlin",
            "tags": ["team", "daily"],
            "recent": GOOD,
            "ago": DAY,
            **push,
        },
        {
            "name": "Water the plants",
            "cron": "0 18 * * 2,5",
            "timezone": "Europe/Berlin",
            "tags": ["home"],
            "recent": GOOD[:14],
            "ago": 2 * DAY,
            **push,
        },
        {
            "name": "Stretch",
            "interval": True,
            "every": timedelta(minutes=45),
            "tags": ["home"],
            "recent": GOOD,
            "ago": hour,
            **push,
        },
        {
            "name": "Dentist",
            "once": True,
            "run_at": now + 18 * DAY,
            "timezone": "Europe/Berlin",
            "tags": ["home"],
            **push,
        },
        {
            "name": "Weekly report",
            "cron": "0 9 * * 1",
            "timezone": "America/New_York",
            "paused": True,
            "recent": GOOD,
            "ago": 5 * DAY,
            "pause_reason": "Summer break",
            "tags": ["report"],
            **ask,
        },
    ]


def _make(owner: User, now: datetime, *, ago: timedelta | None = None, **columns: Any) -> Job:
    defaults = {"made_by": owner.username, "created_at": now - 40 * DAY, "owner": owner}
    job = JobFactory(
        **(defaults | columns),
        last_run_at=now - ago if ago else None,
        run_count=len(columns.get("recent", "")),
    )
    if job.status == Job.Status.PENDING and job.trigger_type == Job.TriggerType.CRON:
        Job.objects.filter(pk=job.pk).update(next_run_at=job.next_slot(now))
    chance = random.Random(job.name)
    step = timedelta(minutes=15)
    rows = []
    for place, letter in enumerate(reversed(job.recent)):
        planned = now - (ago or step) - place * step
        took = timedelta(seconds=0.2 + 3 * chance.random())
        failed = letter in "FL"
        rows.append(
            Execution(
                job=job,
                owner=owner,
                job_name=job.name,
                task=job.task,
                scheduled_for=planned,
                status=LETTERS[letter],
                attempt=1,
                started_at=planned + timedelta(milliseconds=40),
                finished_at=planned + took,
                lateness=timedelta(milliseconds=40),
                error=job.last_error if failed else "",
                result=None if failed else {"status": 200, "body": "ok"},
            )
        )
    Execution.objects.bulk_create(rows)
    return job
