"""Sample data of how runs work out: pings, agents and what they ask, questions, alerts, receivers and ways to reach people."""

import uuid
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from schedules import clock, services
from schedules.limits import clean_output
from schedules.models import AgentRun, Approval, Event, Execution, Incident, Job, Question, RunOutput
from schedules.models.executions import ASKS
from schedules.result import Ok
from schedules.services import Actor, pings
from schedules.services.people.calendars import CalendarSpec, set_calendar
from schedules.services.people.channels import set_channel
from schedules.services.people.stored_secrets import set_secret
from schedules.tasks.commands.output import colours_in
from schedules.tasks.signed_links import Button, answer_token, approval_token, stop_token
from tests.factories import ApprovalFactory, ExecutionFactory, JobFactory, reminder_job
from tests.receivers import happen, listen

HOUR = timedelta(hours=1)
LOG = """\
\x1b[1mReading 214 files\x1b[0m
/home/olga/notes/2026/a-folder-with-a-rather-long-name/and-a-file-that-nobody-would-call-like-this-if-they-had-to-type-it.md
\x1b[33mwarning:\x1b[0m 3 files have no title
\x1b[32mdone\x1b[0m in 41 s
"""
ANSWER = """\
## 3 notes are tidy now

- **2026-11-14**: moved to *Work*
- **2026-11-15**: joined with the one of the day before
- `inbox.md` is empty

Nothing was pushed, because that was not permitted."""
CALLS = [
    {"name": "Read", "input": "notes/2026-11-14.md", "outcome": "ok"},
    {"name": "Edit", "input": "notes/2026-11-14.md", "outcome": "ok"},
    {"name": "Bash", "input": "git push origin main", "outcome": "denied"},
]


def result_pages(owner: User) -> dict[str, str]:
    """Create the rows, and return the path of every page that shows them, by name."""
    actor = Actor(owner, Event.Door.WEB)
    return _pinged(actor) | _worked(actor) | _asked(owner) | _told(actor)


def _pinged(actor: Actor) -> dict[str, str]:
    made = services.schedule(
        actor,
        name="Backup of the NAS",
        task="heartbeat",
        trigger_type="cron",
        cron="0 3 * * *",
        timezone="Europe/Berlin",
        tags=["backup"],
    )
    assert isinstance(made, Ok), made
    job, rid = made.value.job, uuid.uuid4()
    said = [
        {"output": "214 files in 41 s", "late_by": 7200.0},
        {"kind": "start"},
        {"kind": "log", "output": "214 files"},
        {"exit_code": 3, "output": "no space left on device: /mnt/backup\n" * 3},
    ]
    for ping in said:
        stored = pings.ping_heartbeat(actor, job.public_id, run_id=rid, sender="192.0.2.17", **ping)
        assert isinstance(stored, Ok), stored
    return {"heartbeat": f"/jobs/{job.public_id}/", "heartbeat, edited": f"/jobs/{job.public_id}/edit/"}


def _worked(actor: Actor) -> dict[str, str]:
    now, owner = clock.now().replace(microsecond=0), actor.user
    job = JobFactory(
        owner=owner, name="Tidy my notes", task="prompt", kwargs={"prompt": "Tidy my notes of this week."}
    )
    verdicts = ("done", "nothing_to_do", "failed", "over_budget", "refused")
    for place, verdict in enumerate(verdicts):
        run = ExecutionFactory(
            job=job,
            status="succeeded" if verdict in AgentRun.GOOD else "failed",
            attempt=1,
            scheduled_for=now - (5 - place) * 24 * HOUR,
            started_at=now - (5 - place) * 24 * HOUR,
            finished_at=now - (5 - place) * 24 * HOUR + timedelta(seconds=95),
            result=ANSWER if verdict in AgentRun.GOOD else None,
            error="" if verdict in AgentRun.GOOD else "A tool that it wanted was not permitted: Bash.",
        )
        _add_agent(run, verdict)
    waiting = ExecutionFactory(
        job=job,
        status="queued",
        attempt=1,
        scheduled_for=now,
        available_at=now + 24 * HOUR,
        reason=ASKS,
    )
    printed = clean_output(LOG)
    approval: Approval = ApprovalFactory(execution=waiting)
    RunOutput.objects.create(
        execution=run,
        attempt=1,
        head=printed,
        position=len(printed),
        updated_at=now,
        colours=colours_in(LOG),
    )
    return {
        "agents": "/agents/",
        "job of an agent": f"/jobs/{job.public_id}/",
        "run of an agent": f"/runs/{run.pk}/",
        "run that asks": f"/runs/{waiting.pk}/",
        "approval": f"/approve/{approval_token(approval.pk, approval.digest)}/",
        "stop of agents": f"/agents/stop/{stop_token(owner.pk)}/",
    }


def _add_agent(run: Execution, verdict: str) -> None:
    values: dict[str, Any] = {"turns": 7, "tokens_in": 48_000, "tokens_out": 1_240, "cost": "0.1834"}
    AgentRun.objects.create(
        execution=run,
        attempt=1,
        job=run.job,
        owner=run.owner,
        runner="notes",
        kind="claude",
        verdict=verdict,
        started_at=run.started_at,
        ended_at=run.finished_at,
        program_version="2.1.197",
        tool_calls=len(CALLS),
        tools=CALLS,
        denials=CALLS[2:],
        answer=ANSWER,
        **values,
    )


def _asked(owner: User) -> dict[str, str]:
    now = clock.now()
    job = reminder_job(owner=owner, name="Take the pills", ask="every 10m")
    run = ExecutionFactory(job=job, scheduled_for=now, attempt=1, started_at=now, finished_at=now)
    Question.objects.create(execution=run, job=job, asked_at=now, due_at=now + HOUR)
    return {
        "job that asks": f"/jobs/{job.public_id}/",
        "run that waits for an answer": f"/runs/{run.pk}/",
        "answer": f"/a/{answer_token(run.pk, run.key, Button('page'))}/",
    }


def _told(actor: Actor) -> dict[str, str]:
    now, owner = clock.now(), actor.user
    failing: Job = JobFactory(
        owner=owner, name="Import of invoices", failure_streak=2, last_error="No such file"
    )
    Incident.objects.create(
        owner=owner,
        job=failing,
        kind=Incident.Kind.FAILING,
        subject=f"job {failing.pk}",
        name=failing.name,
        opened_at=now - HOUR,
        told=1,
        told_at=now,
        details="No such file: /srv/invoices/2026-11.csv",
    )
    opened = listen(owner, name="n8n on the NAS")
    happen(failing, 3)
    phone = set_channel(actor, "My phone", "ntfy", {"topic": "home-4711"})
    assert isinstance(phone, Ok), phone
    assert isinstance(set_calendar(actor, CalendarSpec("holidays", "holidays", "DE-BY")), Ok)
    assert isinstance(set_secret(actor, "API_KEY", "hush-hush-1", hosts=["api.example.com"]), Ok)
    return {
        "alerts": "/notifications/",
        "webhook": f"/channels/{opened.channel.pk}/",
        "webhook, edited": f"/channels/new/?channel={opened.channel.pk}",
        "failing job": f"/jobs/{failing.public_id}/?tab=history",
        "calendars, some": "/settings/calendars/",
        "secrets, some": "/settings/secrets/",
        "offline": "/offline/",
    }
