"""Factories of rows for tests. They skip validation, so that a test can also create invalid rows."""

from datetime import timedelta
from typing import Any

import factory
from django.contrib.auth.models import Permission, User
from factory.django import DjangoModelFactory

from schedules import clock
from schedules.models import AgentRun, Approval, Cluster, Execution, Job, Profile, Question, Reminder, Token
from schedules.models.approvals import digest_of_shown
from schedules.models.executions import ASKS
from schedules.models.job_texts import searchable_text, skeleton
from schedules.models.jobs import new_public_id
from tests.sample_app import tasks  # noqa: F401  (registers them)


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda number: f"person{number}")
    password = factory.django.Password("correct horse")
    profile = factory.RelatedFactory("tests.factories.ProfileFactory", factory_related_name="user")


def staff_with(*permissions: str) -> User:
    """Return a staff member with these permissions of the app, like view_job."""
    user = UserFactory(is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="schedules", codename__in=permissions)
    )
    return user


class ProfileFactory(DjangoModelFactory[Profile]):
    class Meta:
        model = Profile

    user = factory.SubFactory(UserFactory, profile=None)
    timezone = "Europe/Berlin"


class JobFactory(DjangoModelFactory[Job]):
    """A pending cron job; traits make the other kinds."""

    class Meta:
        model = Job

    class Params:
        once = factory.Trait(
            trigger_type="once",
            cron="",
            run_at=factory.LazyFunction(lambda: clock.now() + timedelta(hours=1)),
            next_run_at=factory.SelfAttribute("run_at"),
        )
        interval = factory.Trait(
            trigger_type="interval",
            cron="",
            every=timedelta(minutes=5),
            anchor_at=factory.SelfAttribute("next_run_at"),
        )
        paused = factory.Trait(status="paused", next_run_at=None, paused_at=factory.LazyFunction(clock.now))
        ended = factory.Trait(status="completed", next_run_at=None)

    owner = factory.SubFactory(UserFactory)
    public_id = factory.LazyFunction(lambda: new_public_id("job", clock.now()))
    name = factory.Sequence(lambda number: f"Job {number}")
    name_skeleton = factory.LazyAttribute(lambda job: skeleton(job.name))
    task = "tests.ping"
    trigger_type = "cron"
    cron = "*/5 * * * *"
    timezone = "UTC"
    next_run_at = factory.LazyFunction(lambda: clock.now() + timedelta(minutes=3))
    created_at = factory.LazyFunction(clock.now)
    updated_at = factory.SelfAttribute("created_at")

    @classmethod
    def _build(cls, model_class: type[Job], *args: Any, **kwargs: Any) -> Job:
        return _searchable(super()._build(model_class, *args, **kwargs))

    @classmethod
    def _create(cls, model_class: type[Job], *args: Any, **kwargs: Any) -> Job:
        job = _searchable(model_class(*args, **kwargs))
        job.save(force_insert=True)
        return job


def _searchable(job: Job) -> Job:
    job.search_text = searchable_text(job)
    return job


def reminder_job(ask: str = "yes", **fields: Any) -> Job:
    """Return a job whose notification asks for an answer."""
    return JobFactory(
        **{"task": "notify", "kwargs": {"message": "Take the pills", "topic": "home", "ask": ask}} | fields
    )


class ExecutionFactory(DjangoModelFactory[Execution]):
    class Meta:
        model = Execution

    job = factory.SubFactory(JobFactory)
    owner = factory.SelfAttribute("job.owner")
    job_name = factory.SelfAttribute("job.name")
    task = factory.SelfAttribute("job.task")
    scheduled_for = factory.LazyFunction(clock.now)
    status = "succeeded"
    finished_at = factory.LazyAttribute(lambda row: clock.now() if row.status in Execution.FINAL else None)
    lease_until = factory.LazyAttribute(
        lambda row: clock.now() + timedelta(seconds=10) if row.status in Execution.HELD else None
    )


class ApprovalFactory(DjangoModelFactory[Approval]):
    """A call that a waiting run of a prompt has asked for; its digest fits."""

    class Meta:
        model = Approval

    execution = factory.SubFactory(
        ExecutionFactory,
        job=factory.LazyFunction(lambda: JobFactory(task="prompt", kwargs={"prompt": "Push it."})),
        status="queued",
        attempt=1,
        reason=ASKS,
        available_at=factory.LazyFunction(lambda: clock.now() + timedelta(days=2)),
    )
    attempt = 1
    job = factory.SelfAttribute("execution.job")
    owner = factory.SelfAttribute("execution.owner")
    runner = "notes"
    session_id = "1bad7d2a-0e96-48d1-addb-bba2ae5d0275"
    folder = "/srv/notes"
    call_id = "toolu_1"
    call_digest = "0" * 64
    tool = "Bash"
    arguments = factory.LazyFunction(lambda: {"command": "git push origin main", "description": "push"})
    why = "The notes are tidy now."
    asked_at = factory.LazyFunction(clock.now)
    expires_at = factory.LazyFunction(lambda: clock.now() + timedelta(days=1))

    @classmethod
    def _create(cls, model_class: type[Approval], *args: Any, **kwargs: Any) -> Approval:
        row = model_class(*args, **kwargs)
        row.digest = digest_of_shown(vars(row))
        row.save(force_insert=True)
        return row


class QuestionFactory(DjangoModelFactory[Question]):
    class Meta:
        model = Question

    execution = factory.SubFactory(ExecutionFactory, job=factory.LazyFunction(reminder_job))
    job = factory.SelfAttribute("execution.job")
    asked_at = factory.LazyFunction(clock.now)


class ReminderFactory(DjangoModelFactory[Reminder]):
    class Meta:
        model = Reminder

    question = factory.SubFactory(QuestionFactory)
    execution = factory.SubFactory(
        ExecutionFactory, job=factory.SelfAttribute("..question.job"), cause="reminder"
    )
    number = 1
    most = 5


class ClusterFactory(DjangoModelFactory[Cluster]):
    class Meta:
        model = Cluster

    host = "host"
    pid = factory.Sequence(lambda number: 1000 + number)
    started_at = factory.LazyFunction(clock.now)
    last_seen_at = factory.LazyFunction(clock.now)
    probe_returned_at = factory.LazyFunction(clock.now)


class TokenFactory(DjangoModelFactory[Token]):
    class Meta:
        model = Token

    owner = factory.SubFactory(UserFactory)
    name = factory.Sequence(lambda number: f"token {number}")
    prefix = factory.Sequence(lambda number: f"{number:08x}")
    digest = "0" * 64
    scopes = ["read", "write"]
    created_at = factory.LazyFunction(clock.now)


def agent_run(owner: User) -> AgentRun:
    """Return a run of this person that an agent ended as refused."""
    run = ExecutionFactory(job=JobFactory(owner=owner, task="prompt"), status="failed", attempt=2)
    return AgentRun.objects.create(
        execution=run,
        attempt=2,
        job=run.job,
        owner=owner,
        runner="notes",
        kind="claude",
        verdict="refused",
        words="permission for `Bash: git push` was not granted",
        started_at=run.scheduled_for,
        turns=3,
        tokens_in=1200,
        tokens_out=34,
        cost="0.05",
        tool_calls=4,
        denials=[{"name": "Bash", "input": "git push", "outcome": "denied"}],
    )
