"""Explanations: say why a slot ran or did not, and describe a run, from the ledger and the events."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from django.db.models import QuerySet

from schedules import clock, engine
from schedules.models import Event, Execution, Job
from schedules.models.jobs import why_skipped
from schedules.result import Ok, Result
from schedules.services.jobs.chains import origin_words, why_not_followed
from schedules.services.jobs.forecasts import MAX_STEPS, as_resumed, slots_ahead
from schedules.services.people.incidents import open_incidents_of_job
from schedules.services.permissions import Actor, not_found
from schedules.services.runs.answers import question_of
from schedules.services.runs.approvals import approval_words
from schedules.services.runs.question_words import describe_question
from schedules.tasks.heartbeat import HEARTBEAT
from schedules.when import durations
from schedules.when.moves import Moved
from schedules.when.phrases import end_of_day
from schedules.when.triggers import TriggerError
from schedules.when.unplanned import UNKNOWN_START, Unplanned
from schedules.when.zones import local_words, short_words

Status = Execution.Status

_STARTED = ("create", "resume", "confirm", "finish", "restore")
_STOPPED = {"pause": "paused", "cancel": "cancelled", "delete": "deleted"}
_SHOWN_STOPS = {"pause": "paused", "cancel": "stopped permanently", "delete": "deleted"}
_NOTICEABLE = timedelta(seconds=1)
_DAY = timedelta(days=1)
# How soon after the end of a run its incident is open: outcomes are written in batches.
_WRITTEN_WITHIN = timedelta(minutes=1)
MAX_CHANGES = 100


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of one slot."""

    job: Job
    at: datetime
    verdict: str
    explanation: str
    """Cronty's own wording, which agents may quote."""
    execution: Execution | None = None
    detail: str = ""
    """Text by others: a task's error, a receiver's answer, or the reason for a pause."""


def why(actor: Actor, job_id: str, at: datetime | date | None, now: datetime) -> Result[Why]:
    """Explain the slot nearest to a moment, or one on a day in the job's time zone; name incidents that last."""
    job = actor.jobs_with_trash().find(job_id)
    if job is None:
        return not_found(job_id)
    explained = _explain_slot(job, at, now)
    until = None if at is None else _last_moment(explained, now)
    lasting = open_incidents_of_job(job, until)
    return Ok(replace(explained, explanation=f"{explained.explanation} {lasting}".strip()))


def _last_moment(explained: Why, now: datetime) -> datetime:
    """Return until when an incident may have begun to concern this slot."""
    run = explained.execution
    if run is None:
        return now if explained.verdict == "late" else explained.at
    return run.finished_at + _WRITTEN_WITHIN if run.finished_at else now


def _explain_slot(job: Job, at: datetime | date | None, now: datetime) -> Why:
    if isinstance(at, date) and not isinstance(at, datetime):
        answer = _of_day(job, at, now)
        if isinstance(answer, Why):
            return answer
        at = answer
    moment = at or now
    if moment < job.created_at:
        return Why(job, moment, "nothing", "The job did not exist yet.")
    if moment <= now and (missed := why_not_followed(job, moment)):
        return Why(job, missed[0], "nothing", missed[1])
    row = _nearest_execution(job, moment)
    if row and (at is None or _is_near(job, row, moment)):
        return _why_of_row(job, row)
    if moment > now:
        return _why_ahead(job, moment, now)
    if at is None and job.status == Job.Status.PAUSED:
        return _why_without_row(job, moment, now, is_ahead=True)
    if job.next_run_at and (at is None or job.next_run_at <= now):
        return _why_not_yet(job, now)
    return _why_without_row(job, moment, now)


def _of_day(job: Job, day: date, now: datetime) -> Why | datetime:
    """Explain a day's last run that did not succeed, or its last run; without runs, return its first slot, if any."""
    end = end_of_day(day, job.timezone)
    if end < job.created_at:
        return Why(job, end, "nothing", "The job did not exist yet.")
    start = end_of_day(day - _DAY, job.timezone)
    rows = _without_reminders(job).order_by("-scheduled_for")
    slots = rows.exclude(cause__in=Execution.UNPLANNED)
    within = {"scheduled_for__gt": start, "scheduled_for__lte": min(end, now)}
    gap = slots.filter(scheduled_for__lte=start).first()
    row = (
        slots.filter(**within).exclude(status=Status.SUCCEEDED).first()
        or (gap if gap and gap.last_slot and gap.last_slot > start else None)
        or slots.filter(**within).first()
        or rows.filter(**within).first()
    )
    if row:
        return _why_of_row(job, row)
    with suppress(TriggerError):
        if end > now and (moved := _why_moved(job, max(start, now))):
            return moved
        slot = job.trigger.next_after(max(start, job.created_at))
        if slot and slot <= end:
            return slot
    return _why_without_row(job, min(end, now) if start < now else end, now)


def _why_of_row(job: Job, row: Execution) -> Why:
    # Whoever shows the run need not read its job again.
    row.job = job
    if not row.reason.startswith(engine.PAUSED):
        explanation = explain(row, job.timezone)
        if origin := origin_words(row):
            explanation = f"{explanation} {origin}"
        if asked := approval_words(row, job.timezone):
            explanation = f"{explanation} {asked}"
        if question := question_of(row):
            explanation = f"{explanation} {describe_question(question, job)}"
        return Why(job, row.scheduled_for, row.status, explanation, row, row.error)
    explanation = f"{explain(row, job.timezone, with_reason=False)} The job was paused."
    return Why(
        job,
        row.scheduled_for,
        row.status,
        explanation,
        row,
        row.error or row.reason.removeprefix(engine.PAUSED),
    )


def explain(row: Execution, timezone: str = "UTC", *, with_reason: bool = True) -> str:
    """Describe the state or result of a run in a sentence or two, without its error."""
    if row.is_asking:
        return row.reason
    on_attempt = "on the first attempt" if row.attempt == 1 else f"on attempt {row.attempt}"
    # The slots of a gap are counted only up to COUNTED_SLOTS.
    is_more = row.slots == engine.COUNTED_SLOTS + 1
    slots = f"more than {engine.COUNTED_SLOTS:,}" if is_more else f"{row.slots:,}"
    many = f"{slots} runs were".capitalize() if row.slots > 1 else "This run was"
    is_late = row.lateness is not None and row.lateness >= _NOTICEABLE
    late = f"; it started {durations.short(row.lateness)} late" if is_late and row.lateness else ""
    again = f" for attempt {row.attempt + 1}" if row.attempt else ""
    if row.attempt and row.available_at:
        again += f", which starts at {local_words(row.available_at, timezone)}"
    is_pinged = row.task == HEARTBEAT
    failed = f"Attempt {row.attempt} failed. " if row.attempt and row.error else ""
    explanation = {
        Status.QUEUED: _awaited_words(row, timezone) or f"{failed}Queued{again}.",
        Status.CLAIMED: "A worker is about to start it.",
        Status.RUNNING: _running_words(row),
        Status.WAITING: f"Claimed by {row.leased_to} until {local_words(row.lease_until, timezone)}."
        if row.lease_until and row.is_held_at(clock.now())
        else "Waiting for an agent.",
        Status.SUCCEEDED: "The ping came." if is_pinged else f"Succeeded {on_attempt}{late}.",
        Status.FAILED: {0: "Failed.", 1: "Failed." if is_pinged else "Failed on the first attempt."}.get(
            row.attempt, f"Failed after {row.attempt} attempts."
        ),
        Status.SKIPPED: f"{many} skipped.",
        Status.MISSED: f"{many} missed.",
        Status.CANCELLED: "Cancelled." if row.attempt else "Cancelled before it started.",
        # The reason says more.
        Status.LOST: "" if with_reason and row.reason else "The worker crashed during this run.",
    }[Status(row.status)]
    return f"{explanation} {row.reason if with_reason else ''}".strip()


def _awaited_words(row: Execution, timezone: str) -> str:
    """Say until when a ping is expected; empty for a run that waits for a worker."""
    if row.task != HEARTBEAT or not row.available_at:
        return ""
    return f"A ping is expected until {local_words(row.available_at, timezone)}."


def _running_words(row: Execution) -> str:
    since = f" for {durations.short(clock.now() - row.started_at)}" if row.started_at else ""
    return f"Running{since}{f', attempt {row.attempt}' if row.attempt > 1 else ''}."


def _nearest_execution(job: Job, moment: datetime) -> Execution | None:
    rows = _without_reminders(job)
    earlier = rows.filter(scheduled_for__lte=moment).order_by("-scheduled_for")
    before = earlier.first()
    # A manual run may lie within a gap of missed slots, so look at scheduled slots alone.
    is_manual = before is not None and before.cause in Execution.STARTED
    slot = earlier.exclude(cause__in=Execution.UNPLANNED).first() if is_manual else before
    if slot and slot.last_slot and slot.last_slot >= moment:
        return slot
    after = rows.filter(scheduled_for__gt=moment).order_by("scheduled_for").first()
    neighbors = [row for row in (before, after) if row]
    return min(neighbors, key=lambda row: abs(row.scheduled_for - moment), default=None)


def _without_reminders(job: Job) -> QuerySet[Execution]:
    """Return the runs of a job, except reminders, which only repeat a run."""
    return Execution.objects.filter(job=job).exclude(cause=Execution.Cause.REMINDER)


def _is_near(job: Job, row: Execution, moment: datetime) -> bool:
    """Return whether no other slot of the schedule is closer to the moment than this row."""
    last = row.last_slot or row.scheduled_for
    if row.scheduled_for <= moment <= last:
        return True
    distance = min(abs(row.scheduled_for - moment), abs(last - moment))
    try:
        closer = job.trigger.next_after(moment - distance)
    except TriggerError:
        return True
    return closer is None or abs(closer - moment) >= distance


def _why_ahead(job: Job, moment: datetime, now: datetime) -> Why:
    """Explain the run nearest to a moment in the future."""
    if reason := _why_left_out(job, moment):
        return reason
    slot = _nearest_slot(as_resumed(job, now), moment, now)
    if slot and job.paused_until is None:
        return Why(job, slot, "pending", "It isn't due yet.") if slot > now else _why_not_yet(job, now)
    if slot and job.paused_until and job.paused_until < moment:
        until = short_words(job.paused_until, job.timezone)
        return Why(job, slot, "pending", f"It is paused until {until}, and runs again after that.")
    return _why_without_row(job, moment, now, is_ahead=True)


def _why_left_out(job: Job, moment: datetime) -> Why | None:
    """Explain a slot at a moment in the future, or the first one within a day after it, if the job skips it."""
    if not (job.skips or job.closed_by):
        return None
    with suppress(TriggerError):
        if moved := _why_moved(job, moment):
            return moved
        slot = job.trigger.next_after(moment - durations.TICK)
        if slot and slot - moment < timedelta(days=1) and (reason := why_skipped(job, slot)):
            return Why(job, slot, "excluded", f"It won't run then: {reason[:1].lower()}{reason[1:]}")
    return None


def _why_moved(job: Job, moment: datetime) -> Why | None:
    """Explain a run at a moment in the future, or the first one within a day after it, if calendars move it."""
    trigger = job.trigger
    if not isinstance(trigger, Moved):
        return None
    slot = trigger.base.next_after(moment - durations.TICK)
    if slot is None or slot - moment >= timedelta(days=1) or (target := trigger.closed.moved(slot)) == slot:
        return None
    reason = trigger.closed.reason(slot)
    then = short_words(target, job.timezone)
    return Why(job, target, "pending", f"It runs on {then} instead: {reason[:1].lower()}{reason[1:]}")


def _nearest_slot(job: Job, moment: datetime, now: datetime) -> datetime | None:
    """Return the planned slot of a pending job that is nearest to a moment, or None."""
    if job.status != Job.Status.PENDING or job.next_run_at is None:
        return None
    start = job.next_run_at
    if not job.max_runs and not job.ends_at:
        start = _start_near(job, moment) or start
    nearest = None
    for step, slot in enumerate(slots_ahead(job, now, start=start)):
        if nearest and abs(slot - moment) >= abs(nearest - moment):
            return nearest
        if step == MAX_STEPS:
            return None
        nearest = slot
    return nearest


def _start_near(job: Job, moment: datetime) -> datetime | None:
    """Return a slot from which to search for the one nearest to a distant moment; earlier slots are not as near."""
    assert job.next_run_at is not None
    try:
        following = job.trigger.next_after(moment)
        early = moment - (following - moment) if following else job.next_run_at
        return job.trigger.next_after(early) if early > job.next_run_at else None
    except (TriggerError, OverflowError):
        return None


def _why_not_yet(job: Job, now: datetime) -> Why:
    assert job.next_run_at is not None
    if job.next_run_at > now:
        if job.next_run_at == UNKNOWN_START and isinstance(trigger := job.undelayed_trigger, Unplanned):
            return Why(job, now, "pending", f"It waits for {trigger.awaited}.")
        return Why(job, job.next_run_at, "pending", "It isn't due yet.")
    if engine.is_any_cluster_running(now):
        return Why(job, job.next_run_at, "late", "It is due and about to start.")
    return Why(job, job.next_run_at, "late", "It is due, but the worker is offline.")


def _last_change(newest_first: Iterable[Event]) -> Event | None:
    """Return the event that explains a job's state: for a restored job, the one before it was stopped or deleted."""
    undone, restored = 0, None
    for event in newest_first:
        if event.verb == "restore":
            undone, restored = undone + 1, event
        elif undone and event.verb in ("cancel", "delete"):
            undone -= 1
        elif restored and event.verb == "pause" and _ended_by(event, restored.at):
            return restored
        else:
            return event
    return None


def _ended_by(pause: Event, moment: datetime) -> bool:
    until = pause.after.get("until")
    return bool(until) and datetime.fromisoformat(until) <= moment


def _why_without_row(job: Job, moment: datetime, now: datetime, *, is_ahead: bool = False) -> Why:
    # Other events, such as edits, do not stop or start a job.
    last = _last_change(
        Event.objects.filter(job=job, at__lte=moment, verb__in=[*_STOPPED, *_STARTED])[:MAX_CHANGES]
    )
    if last and last.verb in _STOPPED:
        stopped = _STOPPED[last.verb]
        explanation = (
            f"It was {_SHOWN_STOPS[last.verb]} by {last.actor} ({short_words(last.at, job.timezone)})."
        )
        if is_ahead and job.paused_until:
            explanation += f" The pause ends on {short_words(job.paused_until, job.timezone)}."
        # A run ahead cannot have been skipped yet.
        verdict = stopped if is_ahead else Status.SKIPPED
        return Why(job, moment, verdict, explanation, detail=str(last.after.get("reason") or ""))
    if moment > now:
        return Why(job, moment, "pending", "That time is in the future.")
    return Why(job, moment, "nothing", "Nothing was scheduled around that time.")
