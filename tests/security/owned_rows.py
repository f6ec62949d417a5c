"""One row of each model for one owner, with a marker in every text, so that tests can detect leaks."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.models import Model

from schedules import clock
from schedules.models import (
    AgentRun,
    AgentStop,
    Approval,
    Calendar,
    Channel,
    Event,
    Execution,
    Heartbeat,
    Incident,
    Job,
    Ping,
    Profile,
    Question,
    Secret,
    Token,
    TriggerAddress,
    UserSession,
)
from schedules.services.jobs.addresses import digest_of
from schedules.when.calendar_data import stored
from schedules.when.calendars import Calendar as MarkedDays
from tests.factories import (
    ApprovalFactory,
    ClusterFactory,
    ExecutionFactory,
    JobFactory,
    TokenFactory,
    UserFactory,
)

MARK = "zqmark"
# As long as existing ids, so that answers have the same length.
UNKNOWN_JOB = "job_910000999_1700000000"
UNKNOWN_NUMBER = 910000999


def marked(what: str) -> str:
    return f"{MARK}-{what}"


@dataclass
class OwnedRows:
    """Olga's rows, and rows of the system, by model."""

    owner: User
    job: Job
    prompt: Job
    trashed: Job
    run: Execution
    trashed_run: Execution
    orphaned_run: Execution
    asked: Execution
    approval: Approval
    token: Token
    revoked_token: Token
    secret: Secret
    heartbeat: Heartbeat
    calendar: Calendar
    channel: Channel
    delivery: Execution
    rows: dict[type[Model], Model] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        return self.owner.cronty_profile


def create_owned_rows() -> OwnedRows:
    """Create the rows, with a different marker in every text column."""
    now = clock.now()
    owner = UserFactory(
        pk=910000001,
        username="olga",
        first_name=marked("first"),
        email=f"{marked('mail')}@example.com",
        profile__failure_topic=marked("failures"),
        profile__signing_key=marked("signing"),
        profile__calendar_key=marked("calendar"),
    )
    common: dict[str, Any] = {
        "owner": owner,
        "made_by": marked("maker"),
        "label": marked("label"),
        "tags": [marked("tag")],
        "last_error": marked("last-error"),
        "failure_streak": 1,
        "recent": "SF",
    }
    job = JobFactory(
        pk=910000001,
        public_id="job_910000001_1700000000",
        name=marked("name"),
        task="notify",
        kwargs={"message": marked("message"), "topic": marked("topic"), "title": marked("title")},
        **common,
    )
    prompt = JobFactory(
        pk=910000002,
        public_id="job_910000002_1700000000",
        name=marked("prompt-name"),
        task="prompt",
        kwargs={"prompt": marked("prompt")},
        once=True,
        **common,
    )
    trashed = JobFactory(
        pk=910000003,
        public_id="job_910000003_1700000000",
        name=marked("trashed"),
        task="prompt",
        kwargs={"prompt": marked("trashed-prompt")},
        deleted_at=now,
        **common,
    )
    waiting = {"status": "waiting", "reason": marked("reason"), "leased_to": marked("holder")}
    run = ExecutionFactory(pk=910000001, job=prompt, **waiting)
    trashed_run = ExecutionFactory(pk=910000003, job=trashed, **waiting)
    orphaned_run = ExecutionFactory(
        pk=910000004, job=None, owner=owner, job_name=marked("gone"), task="prompt", **waiting
    )
    asked = ExecutionFactory(
        pk=910000002,
        job=job,
        scheduled_for=now - timedelta(hours=1),
        status="failed",
        error=marked("error"),
        traceback=marked("traceback"),
        result={marked("key"): marked("result")},
        finished_at=now,
    )
    watched = JobFactory(
        pk=910000004,
        public_id="job_910000004_1700000000",
        name=marked("watched"),
        task="heartbeat",
        **common,
    )
    heartbeat = Heartbeat.objects.create(pk=910000001, job=watched, owner=owner, slug=marked("slug"), pings=1)
    ping = Ping.objects.create(
        pk=910000001,
        heartbeat=heartbeat,
        number=1,
        at=now,
        kind="log",
        body=marked("body"),
        sender="192.0.2.1",
    )
    question = Question.objects.create(
        execution=asked, job=job, asked_at=now, reason=marked("closed"), answered_by=marked("answered")
    )
    token = TokenFactory(pk=910000001, owner=owner, name=marked("token"))
    revoked = TokenFactory(pk=910000003, owner=owner, name=marked("revoked"), revoked_at=now)
    secret = Secret.objects.create(
        pk=910000001,
        owner=owner,
        name=marked("secret").replace("-", "_"),
        sealed=marked("sealed"),
        hosts=[f"{marked('host')}.example"],
        created_at=now,
        updated_at=now,
    )
    calendar = Calendar.objects.create(
        pk=910000001,
        owner=owner,
        name=marked("holidays"),
        kind="dates",
        rule={"dates": ["2026-12-24"]},
        words=marked("holiday-words"),
        compiled=stored(MarkedDays(marked("holidays"), marked("holiday-words"), days={"2026-12-24": ""})),
        digest="0",
        created_at=now,
        updated_at=now,
    )
    receiver = JobFactory(
        pk=910000009,
        owner=owner,
        public_id="events_910000009_1700000000",
        name=marked("receiver-job"),
        task="send_event",
        cron="@manual",
    )
    channel = Channel.objects.create(
        pk=910000001,
        owner=owner,
        name=marked("channel"),
        kind="webhook",
        options={
            "url": f"https://example.com/{marked('address')}",
            "events": "run.failed",
            "tag": marked("receiver-tag"),
        },
        sealed=marked("sealed-channel"),
        last_error=marked("undelivered"),
        job=receiver,
        created_at=now,
        updated_at=now,
    )
    told = {"id": "evt_1", "type": "run.failed", "timestamp": "2026-01-01T00:00:00Z", "data": {}}
    delivery = ExecutionFactory(
        pk=910000010,
        job=receiver,
        cause="event",
        status="failed",
        given={"event": told},
        error=marked("undelivered-event"),
    )
    event = Event.objects.create(
        pk=910000001,
        at=now,
        owner=owner,
        actor=marked("actor"),
        door="mcp",
        verb="edit",
        job=job,
        subject=marked("subject"),
        before={"name": marked("before")},
        after={"name": marked("after")},
    )
    waiting = ExecutionFactory(
        pk=910000009, job=prompt, status="queued", attempt=1, available_at=now + timedelta(days=2)
    )
    approval = ApprovalFactory(
        pk=910000001,
        execution=waiting,
        runner=marked("asking-runner"),
        folder=marked("folder"),
        tool=marked("tool"),
        arguments={"command": marked("command")},
        why=marked("why"),
    )
    attempt = {"username": marked("attempt"), "ip_address": "192.0.2.1", "user_agent": "", "path_info": "/"}
    rows: list[Model] = [
        heartbeat,
        ping,
        # The same key as the calendar's: both addresses have a parameter of this name.
        TriggerAddress.objects.create(
            job=job, owner=owner, digest=digest_of(marked("calendar")), created_at=now
        ),
        AgentRun.objects.create(
            pk=910000001,
            execution=run,
            attempt=1,
            owner=owner,
            runner=marked("runner"),
            kind="command",
            started_at=now,
        ),
        channel,
        approval,
        calendar,
        Incident.objects.create(
            pk=910000001,
            owner=owner,
            job=job,
            kind="failing",
            subject=marked("incident"),
            name=marked("incident-name"),
            details=marked("incident-details"),
            opened_at=now,
        ),
        *(owner, owner.cronty_profile, job, run, question, token, secret, event),
        ClusterFactory(pk=910000001),
        Group.objects.create(pk=910000001, name=marked("group")),
        AccessAttempt.objects.create(pk=910000001, failures_since_start=1, **attempt),
        AccessFailureLog.objects.create(pk=910000001, locked_out=False, **attempt),
        AccessLog.objects.create(pk=910000001, **attempt),
    ]
    return OwnedRows(
        owner,
        job,
        prompt,
        trashed,
        run,
        trashed_run,
        orphaned_run,
        asked,
        approval,
        token,
        revoked,
        secret,
        heartbeat,
        calendar,
        channel,
        delivery,
        {type(row): row for row in rows},
    )


def everything(except_of: User | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table except sessions and the login log, without the rows of one person.

    Plain SQL, because the ORM would spend most of the tests' time on building the same queries.
    """
    found = {}
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            if model in (Session, UserSession, AccessLog):
                continue
            cursor.execute(f"SELECT * FROM {model._meta.db_table} ORDER BY 1")  # noqa: S608
            rows = cursor.fetchall()
            if except_of and rows:
                names = [column[0] for column in cursor.description]
                rows = [
                    row for row in rows if not _is_of(except_of, model, dict(zip(names, row, strict=True)))
                ]
            found[model._meta.label] = rows
    return found


def _is_of(person: User, model: type[Model], row: dict[str, Any]) -> bool:
    if model is AgentStop:
        return bool(row["scope"] == str(person.pk))
    return person.pk in (row.get("owner_id"), row.get("user_id"), row["id"] if model is User else None)
