"""Who may see and change which jobs: people and agents as actors, rows locked for them, and the events of their changes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Q, QuerySet

from schedules import clock, engine, limits
from schedules.models import Channel, Event, Execution, Job, Profile, Token
from schedules.models.executions import ExecutionQuerySet
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import standings_of
from schedules.result import Code, Err
from schedules.secrets import masking
from schedules.services.people.profiles import is_above, profile_of
from schedules.tasks import registry
from schedules.tasks.links import page_of_job

Rows = TypeVar("Rows", bound=QuerySet[Any])

_DOORS_OF_PEOPLE = (Event.Door.WEB, Event.Door.ADMIN, Event.Door.TERMINAL, Event.Door.API, Event.Door.CODE)
# A job that moves others can reschedule prompts, so it needs the same confirmation.
_CONFIRMED_LIKE_PROMPTS = ("prompt", "move_jobs")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change: a person, or an agent that acts for them; `name` is the name of the agent's token."""

    user: AbstractBaseUser
    door: Event.Door = Event.Door.CODE
    name: str = ""
    key: str = ""
    """Distinguishes agents with the same name."""
    profile: Profile | None = field(default=None, compare=False, repr=False)
    """The user's profile, if it was read together with the token."""
    tasks: frozenset[str] | None = None
    """The tasks whose jobs this actor may see and change; None means all."""
    undoes: int | None = None
    """The event that the actor is reversing."""
    is_program: bool = False
    """Whether the token is one for programs; an agent's token gives no more rights in the API than in its tools."""
    confirm: str = Token.Confirm.NEVER
    """Which of the actor's jobs wait until a person confirms them."""

    @property
    def label(self) -> str:
        # A custom user model may have longer names than the columns that hold this label.
        return (self.name or self.user.get_username())[: limits.ACTOR_LENGTH]

    @property
    def is_agent(self) -> bool:
        return self.door == Event.Door.MCP or (self.door == Event.Door.API and not self.is_program)

    @property
    def may_confirm(self) -> bool:
        """Whether this is a person, or a program acting for one, whose own jobs need no confirmation."""
        return not self.is_agent and self.door in _DOORS_OF_PEOPLE and self.confirm == Token.Confirm.NEVER

    def must_propose(self, task_name: str) -> bool:
        """Return whether a person must confirm a job of this task that the actor creates or changes."""
        if self.confirm != Token.Confirm.PROMPTS:
            return self.confirm == Token.Confirm.ALWAYS
        task = registry.get(task_name)
        return task is not None and (task.runs_program or task.name in _CONFIRMED_LIKE_PROMPTS)

    @property
    def sees_all(self) -> bool:
        """Whether the actor sees everybody's jobs, runs and events: permitted staff, on pages and in the admin."""
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
        """Return whether this is staff with a permission for everybody's jobs, on pages or in the admin."""
        if self.door not in (Event.Door.WEB, Event.Door.ADMIN) or not getattr(self.user, "is_staff", False):
            return False
        has_perm = getattr(self.user, "has_perm", None)
        return has_perm is not None and bool(has_perm(f"schedules.{name}"))

    def read_profile(self) -> Profile:
        """Return the user's profile, from this call's token or from the database."""
        return self.profile or profile_of(self.user)

    def visible(self, rows: Rows, task_column: str = "task") -> Rows:
        """Keep the rows that the actor may see; they have a column `owner` and, perhaps in another table, a task."""
        return rows if self.sees_all else rows.filter(self.within_tasks(task_column), owner=self.user.pk)

    def jobs(self) -> JobQuerySet:
        return self.visible(Job.objects.kept())

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
        return self.visible(Job.objects.trashed())

    def jobs_with_trash(self) -> JobQuerySet:
        """The jobs that the actor sees, including those in the trash."""
        return self.visible(Job.objects.all())

    def restorable(self) -> JobQuerySet:
        """Jobs that can be restored: deleted or cancelled ones."""
        return self.jobs_with_trash().filter(Q(deleted_at__isnull=False) | Q(status=Job.Status.CANCELLED))

    def executions(self) -> ExecutionQuerySet:
        return self.visible(Execution.objects.all())

    def events(self) -> QuerySet[Event]:
        """Events of everybody whose jobs the actor sees, whatever their tasks: a scope that has an index."""
        return Event.objects.all() if self.sees_all else Event.objects.filter(owner=self.user.pk)

    def may_use(self, task: str) -> bool:
        return self.tasks is None or task in self.tasks

    def within_tasks(self, column: str = "task") -> Q:
        """Match rows of the tasks that the actor may see."""
        return Q() if self.tasks is None else Q(**{f"{column}__in": sorted(self.tasks)})


def read_activity(job: Job) -> None:
    """Set on a job whether it is running, and the rank of its standing."""
    standing = standings_of([job], clock.now())[job.pk]
    vars(job).update(is_running=standing.is_running, rank=standing.rank)


def actor_of_link(job: Job, name: str, user: Actor | None) -> Actor:
    """Return who answers with a link about a job: its owner, named after the logged-in user if they may change it."""
    if user is not None and user.jobs().filter(pk=job.pk).exists() and user.may_change(job):
        name = user.label
    return Actor(job.owner, Event.Door.LINK, name)


def not_found(job_id: str) -> Err:
    return Err(Code.JOB_NOT_FOUND, job_id)


def forbidden(job: Job) -> Err:
    return Err(Code.JOB_READ_ONLY, job.public_id)


def wrong_state(job: Job) -> Err:
    """Refuse a change that the job's status does not allow."""
    return Err(Code[f"JOB_ALREADY_{job.status.upper()}"], job.public_id, state=job.status)


def unconfirmed(job: Job) -> Err:
    """Refuse to run a job that waits for a person's confirmation."""
    return Err(Code.JOB_UNCONFIRMED, job.public_id, hint=f" at {page_of_job(job.public_id)}")


def confirmation_hint(actor: Actor, task_name: str) -> str:
    """Say which token settings would need no confirmation for this task; empty if the actor's own needs none."""
    if not actor.must_propose(task_name):
        return ""
    choices = [
        each for each in Token.Confirm.values if not replace(actor, confirm=each).must_propose(task_name)
    ]
    return f'A token with "Ask me to confirm its jobs" set to {" or ".join(choices)} needs no confirmation for this.'


def record(
    actor: Actor, verb: str, now: datetime, *, job: Job, before: Any = None, after: Any = None
) -> None:
    """Write an event, in the transaction that makes the change, and set it as the job's `event`."""
    job.event = event_of(actor, verb, now, job=job, before=before, after=after)
    job.event.save(force_insert=True)
    _notify_subscribers([job.event], now)


def record_all(events: Iterable[Event], now: datetime) -> list[Event]:
    """Write the events of several changes, in the transaction that makes them."""
    saved = Event.objects.bulk_create(events)
    _notify_subscribers(saved, now)
    return saved


def _notify_subscribers(events: Sequence[Event], now: datetime) -> None:
    """Publish changes to the webhooks that are told of events; there are hardly ever any, which one short query shows."""
    owners = {event.owner_id for event in events}
    if Channel.objects.listening().filter(owner__in=owners).exists():
        engine.publish_changes(events, now)


def event_of(
    actor: Actor, verb: str, now: datetime, *, job: Job, before: Any = None, after: Any = None
) -> Event:
    """Build the event of a change without saving it."""
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


def locked_job(actor: Actor, job_id: str, *, may: Callable[[Job], bool] | None = None) -> Job | Err:
    """Lock a job that the actor may change; `may` replaces this permission with another."""
    job = actor.jobs().select_for_update(of=("self",)).find(job_id)
    if job is None:
        return not_found(job_id)
    return job if (may or actor.may_change)(job) else forbidden(job)


def change_row(job: Job, now: datetime, **changes: Any) -> None:
    """Update a locked row; its revision must be the one that was read."""
    changed = Job.objects.filter(pk=job.pk, revision=job.revision).update(
        **changes, revision=job.revision + 1, updated_at=now
    )
    assert changed == 1
    job.apply_changes(changes, now)


def record_setting(actor: Actor, verb: str, subject: str, now: datetime, **values: Any) -> None:
    """Write the event of a change to somebody's settings, like a secret or a channel, in the transaction that makes it."""
    Event.objects.create(
        at=now,
        owner_id=actor.user.pk,
        actor=actor.label,
        door=actor.door,
        verb=verb,
        subject=subject,
        **values,
    )
