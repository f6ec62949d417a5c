"""Pause all of a person's jobs at once, until a date or until they resume them all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from schedules import clock
from schedules.models import Job, Question
from schedules.models.counting import counted
from schedules.models.jobs import JobQuerySet
from schedules.result import Document, Err, Ok, Result, operation
from schedules.services.documents import listed_job
from schedules.services.jobs.bulk import change_each, changeable, without_own_jobs
from schedules.services.permissions import Actor
from schedules.services.reading import read_pause_end

# Begins the reason of these pauses, to distinguish them from those of single jobs, which are not resumed together.
REASON = "Everything was paused."


@dataclass(frozen=True, slots=True)
class State:
    """How many jobs are active, how many were paused together, and until when."""

    active: int
    paused: int
    paused_until: datetime | None
    going_on: str
    """What a pause of everything does not stop, in words."""


@dataclass(frozen=True, slots=True)
class ChangedTogether:
    """The changed jobs as they are now, and why others were not changed."""

    jobs: Sequence[Job]
    refused: Sequence[Err]


def read_state(actor: Actor) -> State:
    together = _paused_together(actor).order_by()
    until = together.values_list("paused_until", flat=True).first()
    return State(_to_pause(actor).order_by().count(), together.count(), until, what_goes_on(actor))


def what_goes_on(actor: Actor) -> str:
    """Say what a pause of everything does not stop: jobs without a further slot cannot be paused; empty if nothing."""
    jobs = without_own_jobs(actor.jobs().filter(owner=actor.user.pk))
    last = jobs.stopped(Job.Status.RUNNING).order_by().count()
    asking = Question.objects.filter(due_at__isnull=False).order_by().values("job")
    reminding = jobs.filter(status__in=(Job.Status.COMPLETED, Job.Status.FAILED), pk__in=asking)
    reminded = reminding.order_by().count()
    parts = [
        f"{counted(last, 'job')} whose last run is due or held by quiet hours" if last else "",
        f"the reminders of {counted(reminded, 'job')} that already ran" if reminded else "",
    ]
    text = " and ".join(filter(None, parts))
    return f"Not paused: {text}." if text else ""


def pause_reason(reason: str, *, is_everything: bool) -> str:
    """Return the reason to store for a pause of many jobs, so that `resume_everything` ends a pause of everything."""
    return f"{REASON} {reason}".rstrip() if is_everything else reason


def pause_everything(actor: Actor, until: datetime | None) -> ChangedTogether:
    """Pause all active jobs of the person; jobs created later run."""
    return _changed(actor, change_each(actor, "pause", _ids_of(_to_pause(actor)), until=until, reason=REASON))


def resume_everything(actor: Actor) -> ChangedTogether:
    """Resume the jobs that were paused together, not those that were paused one by one."""
    return _changed(actor, change_each(actor, "resume", _ids_of(_paused_together(actor))))


@operation
def pause_all(actor: Actor, *, until: str | None = None) -> Document:
    """Pause all active jobs of the owner until they are resumed together, or until a time; jobs created later run."""
    end = read_pause_end(until, actor.read_profile().zone, clock.now())
    return _document(pause_everything(actor, end), what_goes_on(actor))


@operation
def resume_all(actor: Actor) -> Document:
    """Resume the jobs that were paused together, not those that were paused one by one."""
    return _document(resume_everything(actor))


def _document(changed: ChangedTogether, note: str = "") -> Document:
    return {
        "jobs": [listed_job(job) for job in changed.jobs],
        "refused": [{"why": error.text, "code": error.code.name.lower()} for error in changed.refused],
        "note": note,
    }


def _to_pause(actor: Actor) -> JobQuerySet:
    return changeable(actor, "pause").filter(owner=actor.user.pk)


def _paused_together(actor: Actor) -> JobQuerySet:
    return changeable(actor, "resume").filter(owner=actor.user.pk, pause_reason__startswith=REASON)


def _ids_of(jobs: JobQuerySet) -> list[str]:
    return list(jobs.order_by("pk").values_list("public_id", flat=True))


def _changed(actor: Actor, results: Mapping[str, Result[Job]]) -> ChangedTogether:
    ids = [job_id for job_id, result in results.items() if isinstance(result, Ok)]
    # Jobs that were changed together still have their old column values.
    jobs = list(actor.jobs().filter(public_id__in=ids).order_by("pk")) if ids else []
    return ChangedTogether(jobs, [result for result in results.values() if isinstance(result, Err)])
