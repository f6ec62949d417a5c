"""The actor of a change: a person or an agent, the interface they use, and the jobs they may see and change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q

from schedules import clock, engine, limits
from schedules.models import Event, EventSubscription, Execution, Job, Profile, Token
from schedules.models.executions import ExecutionQuerySet
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import standings_of
from schedules.result import Code, Err
from schedules.secrets import masking
from schedules.services.people.profiles import is_above, profile_of
from schedules.tasks import registry
from schedules.tasks.site import page_of_job

_CONFIRMING = (Event.Door.WEB, Event.Door.ADMIN, Event.Door.TERMINAL, Event.Door.API, Event.Door.CODE)
# Moving jobs later would change when prompts run without asking again.
_ASKED_WITH_PROMPTS = ("prompt", "move_jobs")


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, or an agent that acts for them; `name` is the name of the agent's token."""

    user: AbstractBaseUser
    door: Event.Door = Event.Door.CODE
    name: str = ""
    key: str = ""
    """Distinguishes agents with the same name."""
    profile: Profile | None = field(default=None, compare=False, repr=False)
    """The profile of the user, if it was read together with the token."""
    tasks: frozenset[str] | None = None
    """The tasks whose jobs this actor may see and change; None means all."""
    undoes: int | None = None
    """The event that the actor is reversing."""
    is_program: bool = False
    """Whether the token is one for programs; an agent's own token gets no more through the API than through its tools."""

    confirm: str = Token.Confirm.NEVER
    """Which of the jobs that the actor makes wait until a person confirms them."""

    @property
    def label(self) -> str:
        # A custom user model may have longer names than the columns that hold this label.
        return (self.name or self.user.get_username())[: limits.ACTOR_LENGTH]

    @property
    def is_agent(self) -> bool:
        return self.door == Event.Door.MCP or (self.door == Event.Door.API and not self.is_program)

    @property
    def may_confirm(self) -> bool:
        """Whether this is a person, or a program that acts for one, whose jobs need no confirmation themselves."""
        return not self.is_agent and self.door in _CONFIRMING and self.confirm == Token.Confirm.NEVER

    def must_propose(self, task_name: str) -> bool:
        """Return whether a person has to confirm a job of this task that the actor makes or changes."""
        if self.confirm != Token.Confirm.PROMPTS:
            return self.confirm == Token.Confirm.ALWAYS
        task = registry.get(task_name)
        return task is not None and (task.runs_program or task.name in _ASKED_WITH_PROMPTS)

    @property
    def sees_all(self) -> bool:
        """Staff who may view jobs see everybody's, with runs and events, on the pages and in the admin.

        An agent sees only its owner's.
        """
        # As in the admin, whoever may change a job may also view it.
        return self._has_permission("view_job") or self._has_permission("change_job")

    def may_change(self, job: Job) -> bool:
        """Return whether the actor may edit, stop and run a job: their own, or any by permission."""
        return self._may("change_job", job)

    def may_delete(self, job: Job) -> bool:
        return self._may("delete_job", job)

    def _may(self, permission: str, job: Job) -> bool:
        if job.owner_id == self.user.pk:
            return True
        return self._has_permission(permission) and not is_above(job.owner, self.user)

    def _has_permission(self, name: str) -> bool:
        """Return whether this is staff with a permission for everybody's jobs, on the pages or in the admin."""
        if self.door not in (Event.Door.WEB, Event.Door.ADMIN) or not getattr(self.user, "is_staff", False):
            return False
        has_perm = getattr(self.user, "has_perm", None)
        return has_perm is not None and bool(has_perm(f"schedules.{name}"))

    def read_profile(self) -> Profile:
        """Return the profile of the user, from this call's token or from the database."""
        return self.profile or profile_of(self.user)

    def jobs(self) -> JobQuerySet:
        if self.sees_all:
            return Job.objects.kept()
        return Job.objects.filter(self.within_tasks(), owner=self.user.pk, deleted_at=None)

    def job(self, public_id: str) -> Job | None:
        """Return one job with its activity and the rank of its standing, or None."""
        job = self.jobs().find(public_id)
        if job:
            read_activity(job)
        return job

    def job_with_owner(self, public_id: str) -> Job | None:
        """Return one job with its owner, whose rights decide who may change it, or None."""
        return self.jobs().select_related("owner").find(public_id)

    def trash(self) -> JobQuerySet:
        if self.sees_all:
            return Job.objects.trashed()
        return Job.objects.trashed().filter(self.within_tasks(), owner=self.user.pk)

    def known_jobs(self) -> JobQuerySet:
        """Jobs that the actor sees, and those in the trash."""
        if self.sees_all:
            return Job.objects.all()
        return Job.objects.filter(self.within_tasks(), owner=self.user.pk)

    def restorable(self) -> JobQuerySet:
        """Jobs that can be brought back: deleted or cancelled ones."""
        return self.known_jobs().filter(Q(deleted_at__isnull=False) | Q(status=Job.Status.CANCELLED))

    def executions(self) -> ExecutionQuerySet:
        if self.sees_all:
            return Execution.objects.all()
        return Execution.objects.filter(self.within_tasks(), owner=self.user.pk)

    def may_use(self, task: str) -> bool:
        return self.tasks is None or task in self.tasks

    def within_tasks(self, column: str = "task") -> Q:
        """Match the rows of the tasks that this actor may see."""
        return Q() if self.tasks is None else Q(**{f"{column}__in": sorted(self.tasks)})


def read_activity(job: Job) -> None:
    """Set whether a run of a job is under way, and the rank of its standing."""
    standing = standings_of([job], clock.now())[job.pk]
    vars(job).update(is_running=standing.is_running, rank=standing.rank)


def not_found(job_id: str) -> Err:
    return Err(Code.JOB_NOT_FOUND, job_id)


def forbidden(job: Job) -> Err:
    return Err(Code.JOB_READ_ONLY, job.public_id)


def wrong_state(job: Job) -> Err:
    """Refuse a change that the status of a job does not allow."""
    return Err(Code[f"JOB_ALREADY_{job.status.upper()}"], job.public_id, state=job.status)


def unconfirmed(job: Job) -> Err:
    """Refuse what would run a job that waits until a person confirms it."""
    return Err(Code.JOB_UNCONFIRMED, job.public_id, hint=f" at {page_of_job(job.public_id)}")


def unasked_words(actor: Actor, task_name: str) -> str:
    """Say which tokens need no confirmation for what this actor has proposed; empty if this one needs none."""
    if not actor.must_propose(task_name):
        return ""
    choices = [
        each for each in Token.Confirm.values if not replace(actor, confirm=each).must_propose(task_name)
    ]
    return f'A token with "Ask me to confirm its jobs" set to {" or ".join(choices)} needs no confirmation for this.'


def record(
    actor: Actor, verb: str, now: datetime, *, job: Job, before: Any = None, after: Any = None
) -> None:
    """Write an event; call it inside the transaction that makes the change. The job then knows it as its `event`."""
    job.event = event_of(actor, verb, now, job=job, before=before, after=after)
    job.event.save(force_insert=True)
    _tell([job.event], now)


def record_all(events: Iterable[Event], now: datetime) -> list[Event]:
    """Write the events of several changes; call it inside the transaction that makes them."""
    written = Event.objects.bulk_create(events)
    _tell(written, now)
    return written


def _tell(events: Sequence[Event], now: datetime) -> None:
    """Tell those who listen of changes; nearly always nobody does, which one short query shows."""
    owners = {event.owner_id for event in events}
    if EventSubscription.objects.filter(owner__in=owners).exists():
        engine.publish_changes(events, now)


def event_of(
    actor: Actor, verb: str, now: datetime, *, job: Job, before: Any = None, after: Any = None
) -> Event:
    """Return the event of a change, for a transaction that writes several at once."""
    return Event(
        at=now,
        owner_id=job.owner_id,
        actor=actor.label,
        door=actor.door,
        verb=verb,
        job_id=job.pk,
        subject=job.name,
        undoes=actor.undoes,
        before=masking.masked(before or {}),
        after=masking.masked(after or {}),
    )
