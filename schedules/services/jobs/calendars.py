"""The calendars of a job: checked with its schedule, and found by their names when it is stored."""

from schedules import engine
from schedules.models import Calendar, Job
from schedules.models.calendars import MOST_CALENDARS_OF_JOB
from schedules.result import Err, invalid
from schedules.when.forecast import runs_per_minute
from schedules.when.moves import MOST_MOVED_PER_DAY
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import Unplanned

_MINUTES_PER_DAY = 24 * 60


def attach_calendars(job: Job, *, is_locked: bool = False) -> Err | None:
    """Let a job refer to the calendars that it names, or return what is wrong with them.

    Within the transaction that stores the job, lock them: a calendar must not change or go meanwhile.
    """
    job.closed_by = ""
    if not job.calendars:
        if job.on_closed != Job.OnClosed.SKIP:
            return invalid("on_closed", "This needs a calendar: name one, or choose skip.")
        return None
    if problem := _problem(job):
        return problem
    rows = Calendar.objects.filter(owner=job.owner_id, name__in=job.calendars).order_by("pk")
    if is_locked:
        rows = rows.select_for_update()
    references = {row.name: row.reference for row in rows.only("name", "digest")}
    if unknown := [name for name in job.calendars if name not in references]:
        return invalid("calendars", _unknown(job.owner_id, unknown[0]))
    job.closed_by = engine.references_to(job.calendars, references)
    return None


def _problem(job: Job) -> Err | None:
    names = job.calendars
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return invalid("calendars", "Give a list of the names of calendars.")
    if len(names) > MOST_CALENDARS_OF_JOB or len(set(names)) < len(names):
        return invalid("calendars", f"Name at most {MOST_CALENDARS_OF_JOB} calendars, each once.")
    try:
        trigger = job.undelayed_trigger
    except TriggerError:
        # The schedule itself is refused.
        return None
    if job.trigger_type == Job.TriggerType.ONCE or isinstance(trigger, Unplanned):
        return invalid("calendars", "Leave this empty: only schedules that repeat have calendars.")
    if (
        job.on_closed != Job.OnClosed.SKIP
        and runs_per_minute(trigger) * _MINUTES_PER_DAY > MOST_MOVED_PER_DAY
    ):
        reason = f"A job that runs more than {MOST_MOVED_PER_DAY} times a day can only skip closed times."
        return invalid("on_closed", reason)
    return None


def _unknown(owner_id: int, name: str) -> str:
    names = list(Calendar.objects.filter(owner=owner_id).order_by("name").values_list("name", flat=True)[:20])
    known = f"Choose from: {', '.join(names)}." if names else "There are none yet: create it under Settings."
    return f"There is no calendar {name[:64]!r}. {known}"
