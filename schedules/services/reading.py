"""Queries: what a schedule will do, which runs come next, and why a slot ran or did not."""

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import chain, islice
from typing import Any, TypeAlias

from schedules import clock, engine
from schedules.models import Event, Execution, Job
from schedules.models.jobs import skips_of, trigger_of_job, why_skipped
from schedules.result import Ok, Result
from schedules.services.actors import Actor, not_found
from schedules.when import durations
from schedules.when.moments import local_words, short_words
from schedules.when.triggers import Trigger, TriggerError

Status = Execution.Status

MOST_UPCOMING = 200
MOST_STEPS = 2000
# What the words of a schedule need; rows of these columns are read several times faster than models.
WORDS_COLUMNS = ("trigger_type", "run_at", "every", "calendar_unit", "anchor_at", "cron", "timezone")
_UPCOMING_COLUMNS = (
    "pk",
    "public_id",
    "name",
    "task",
    "next_run_at",
    "anchor_at",
    "ends_at",
    "max_runs",
    "slot_count",
    "skips",
    "trigger_type",
    "every",
    "calendar_unit",
    "cron",
    "timezone",
)
_Run: TypeAlias = tuple[datetime, int, Any]
# By cron expression and zone: a moment, and the next slot after it.
_KnownSlots: TypeAlias = dict[tuple[str, str], tuple[datetime, datetime | None]]
_STARTED = ("create", "resume", "finish", "restore")
# How the reason of a slot within a pause begins; what follows was written by whoever paused the job.
_PAUSED = "Paused: "
_TICK = timedelta(microseconds=1)
_STOPPED = {"pause": "paused", "cancel": "cancelled", "delete": "deleted"}
_SHOWN_STOPS = {"pause": "paused", "cancel": "stopped permanently", "delete": "deleted"}
_NOTICEABLE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Preview:
    """A schedule in words with its next runs, for the form, the admin and the tools."""

    description: str
    timezone: str
    next_runs: list[datetime]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of one slot."""

    job: Job
    at: datetime
    verdict: str
    explanation: str
    """Our own words, which agents quote."""
    execution: Execution | None = None
    detail: str = ""
    """What others wrote: the error of a task, a receiver's answer, or the reason for a pause."""


def preview(trigger: Trigger, timezone: str, now: datetime, count: int = 5) -> Preview:
    """Describe a schedule in words and list its next runs; nothing is stored."""
    return Preview(trigger.words(), timezone, trigger.upcoming(now, count), trigger.warnings(now))


def words_of(job: Any) -> str:
    """Describe the schedule of a job, or of a row with WORDS_COLUMNS; show the raw text if it cannot be read."""
    try:
        return trigger_of_job(job).words()
    except TriggerError:
        return job.cron or str(job.trigger_type)


def policies_of(job: Job) -> dict[str, Any]:
    """Return the policies of a job by name, with durations as people type them."""
    policies = {name: getattr(job, name) for name in Job.POLICY_FIELDS}
    return {
        name: durations.typed(value) if isinstance(value, timedelta) else value
        for name, value in policies.items()
    }


def preview_of(job: Job, now: datetime, count: int = 5) -> Preview:
    """Preview a stored job within its end and its remaining runs; an unreadable schedule is a warning."""
    try:
        warnings = job.trigger.warnings(now)
    except TriggerError as error:
        return Preview(words_of(job), job.timezone, [], [error.reason])
    return Preview(words_of(job), job.timezone, next_runs_of(job, now, count), warnings)


def next_runs_of(job: Job, now: datetime, count: int = 5) -> list[datetime]:
    """List the next runs within the job's end and its remaining runs, of a paused job those after its pause."""
    job = as_resumed(job, now)
    return list(islice(_slots(job, now), count)) if job.status == Job.Status.PENDING else []


def as_resumed(job: Job, now: datetime) -> Job:
    """Return a copy of a job as it will be when its pause ends; return a job without such an end unchanged."""
    if job.status != Job.Status.PAUSED or job.paused_until is None:
        return job
    later = copy(job)
    # A job whose schedule cannot be read stays paused.
    with suppress(TriggerError):
        later.next_run_at = job.next_slot(max(job.paused_until, now))
        later.status = Job.Status.PENDING
    return later


def upcoming(
    actor: Actor, now: datetime, *, hours: float = 24, limit: int = MOST_UPCOMING
) -> list[tuple[datetime, Any]]:
    """List the runs of the next hours, soonest first, each with the row of its job."""
    until = now + timedelta(hours=hours)
    soonest = actor.jobs().armed().filter(next_run_at__lte=until).order_by("next_run_at")
    rows = list(soonest.values_list(*_UPCOMING_COLUMNS, named=True)[:limit])
    if len(rows) == limit:
        # These jobs fill the list with their next runs alone, so no later run can be in it.
        until = rows[-1].next_run_at
    rows += _resumed_rows(actor, now, until, limit)
    known: _KnownSlots = {}
    # Most jobs have one run in the list: only the others are merged, which takes far longer than sorting.
    first_runs: list[_Run] = []
    later_runs: list[Iterator[_Run]] = []
    for row in rows:
        runs = _runs(row, now, until, known)
        first_runs += islice(runs, 1)
        if second := next(runs, None):
            later_runs.append(chain([second], runs))
    soonest_runs = sorted([*first_runs, *islice(merge(*later_runs), limit)])
    return [(slot, row) for slot, _, row in soonest_runs[:limit]]


def _resumed_rows(actor: Actor, now: datetime, until: datetime, limit: int) -> list[Any]:
    """Read the jobs whose pause ends before a moment, as they will be then."""
    paused = actor.jobs().filter(status=Job.Status.PAUSED, paused_until__lte=until).order_by("paused_until")
    # Their keys first: nearly always there are none, and a query of many columns takes twice as long to build.
    keys = list(paused.values_list("pk", flat=True)[:limit])
    if not keys:
        return []
    rows = []
    resumed = paused.filter(pk__in=keys)
    for row in resumed.values_list(*_UPCOMING_COLUMNS, "run_at", "paused_until", named=True):
        with suppress(TriggerError):
            slot = trigger_of_job(row).next_after(max(row.paused_until, now))
            rows.append(row._replace(next_run_at=slot))
    return rows


def _runs(row: Any, now: datetime, until: datetime, known: _KnownSlots) -> Iterator[_Run]:
    return ((slot, row.pk, row) for slot in _slots(row, now, until, known=known))


def _slots(
    job: Any,
    now: datetime,
    until: datetime | None = None,
    *,
    start: datetime | None = None,
    known: _KnownSlots | None = None,
) -> Iterator[datetime]:
    """Yield the remaining slots of a pending job, from its next run or from a later start on.

    Several jobs may share `known`, so that the next slot of the same cron expression is computed once.
    """
    slot, left = start or job.next_run_at, None if job.max_runs is None else job.max_runs - job.slot_count
    skips = skips_of(job)
    while slot and (until is None or slot <= until) and left != 0:
        if job.ends_at and slot > job.ends_at:
            return
        since = slot
        if skips and skips.reason(slot):
            since = skips.last_moment(slot)
        else:
            yield slot
            left = None if left is None else left - 1
        if job.trigger_type == Job.TriggerType.ONCE:
            return
        try:
            slot = _slot_after(job, max(since, now), {} if known is None else known)
        except TriggerError:
            # The engine reports this error when the job is due.
            return


def _slot_after(job: Any, moment: datetime, known: _KnownSlots) -> datetime | None:
    schedule = job.cron, job.timezone
    if job.cron and schedule in known:
        since, following = known[schedule]
        if following and since <= moment < following:
            return following
    following = trigger_of_job(job).next_after(moment)
    known[schedule] = moment, following
    return following


def why(actor: Actor, job_id: str, at: datetime | None, now: datetime) -> Result[Why]:
    """Explain the slot nearest to a moment, from the ledger and the events."""
    job = actor.jobs().find(job_id)
    if job is None:
        return not_found(job_id)
    moment = at or now
    if moment < job.created_at:
        return Ok(Why(job, moment, "nothing", "The job did not exist yet."))
    row = _nearest_execution(job, moment)
    if row and (at is None or _is_near(job, row, moment)):
        return Ok(_why_of_row(job, row))
    if moment > now:
        return Ok(_why_ahead(job, moment, now))
    if at is None and job.status == Job.Status.PAUSED:
        return Ok(_why_without_row(job, moment, now, is_ahead=True))
    if job.next_run_at and (at is None or job.next_run_at <= now):
        return Ok(_why_not_yet(job, now))
    return Ok(_why_without_row(job, moment, now))


def _why_of_row(job: Job, row: Execution) -> Why:
    if not row.reason.startswith(_PAUSED):
        return Why(job, row.scheduled_for, row.status, explain(row, job.timezone), row, row.error)
    words = f"{explain(row, job.timezone, with_reason=False)} The job was paused."
    return Why(job, row.scheduled_for, row.status, words, row, row.error or row.reason.removeprefix(_PAUSED))


def explain(row: Execution, timezone: str = "UTC", *, with_reason: bool = True) -> str:
    """Describe the state or the result of a run in one sentence, without its error."""
    on_attempt = "on the first attempt" if row.attempt == 1 else f"on attempt {row.attempt}"
    # The slots of a gap are counted only up to this number.
    is_more = row.slots == engine.COUNTED_SLOTS + 1
    slots = f"more than {engine.COUNTED_SLOTS:,}" if is_more else f"{row.slots:,}"
    many = f"{slots} runs were".capitalize() if row.slots > 1 else "This run was"
    is_late = row.lateness is not None and row.lateness >= _NOTICEABLE
    late = f"; it started {durations.short(row.lateness)} late" if is_late and row.lateness else ""
    again = f" for attempt {row.attempt + 1}" if row.attempt else ""
    if row.attempt and row.available_at:
        again += f", which starts at {local_words(row.available_at, timezone)}"
    failed = f"Attempt {row.attempt} failed. " if row.attempt and row.error else ""
    words = {
        Status.QUEUED: f"{failed}Queued{again}.",
        Status.CLAIMED: "A worker is about to start it.",
        Status.RUNNING: f"Running, attempt {row.attempt}.",
        Status.WAITING: f"Claimed by {row.leased_to} until {local_words(row.lease_until, timezone)}."
        if row.lease_until and row.is_held_at(clock.now())
        else "Waiting for an agent.",
        Status.SUCCEEDED: f"Succeeded {on_attempt}{late}.",
        Status.FAILED: {0: "Failed.", 1: "Failed on the first attempt."}.get(
            row.attempt, f"Failed after {row.attempt} attempts."
        ),
        Status.SKIPPED: f"{many} skipped.",
        Status.MISSED: f"{many} missed.",
        Status.CANCELLED: "Cancelled." if row.attempt else "Cancelled before it started.",
        # Its reason says more.
        Status.LOST: "" if with_reason and row.reason else "The worker crashed during this run.",
    }[Status(row.status)]
    return f"{words} {row.reason if with_reason else ''}".strip()


def _nearest_execution(job: Job, moment: datetime) -> Execution | None:
    rows = Execution.objects.filter(job=job)
    earlier = rows.filter(scheduled_for__lte=moment).order_by("-scheduled_for")
    before = earlier.first()
    # A manual run may lie within a gap: then look at scheduled slots alone.
    is_manual = before is not None and before.cause == Execution.Cause.MANUAL
    slot = earlier.exclude(cause=Execution.Cause.MANUAL).first() if is_manual else before
    if slot and slot.last_slot and slot.last_slot >= moment:
        return slot
    after = rows.filter(scheduled_for__gt=moment).order_by("scheduled_for").first()
    found = [row for row in (before, after) if row]
    return min(found, key=lambda row: abs(row.scheduled_for - moment), default=None)


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
    if words := _why_left_out(job, moment):
        return words
    slot = _nearest_slot(as_resumed(job, now), moment, now)
    if slot and job.paused_until is None:
        return Why(job, slot, "pending", "It isn't due yet.") if slot > now else _why_not_yet(job, now)
    if slot and job.paused_until and job.paused_until < moment:
        until = short_words(job.paused_until, job.timezone)
        return Why(job, slot, "pending", f"It is paused until {until}, and runs again after that.")
    return _why_without_row(job, moment, now, is_ahead=True)


def _why_left_out(job: Job, moment: datetime) -> Why | None:
    """Explain a slot at a moment in the future, or the first one on its day, if the job leaves it out."""
    if not job.skips:
        return None
    with suppress(TriggerError):
        slot = job.trigger.next_after(moment - _TICK)
        if slot and slot - moment < timedelta(days=1) and (words := why_skipped(job, slot)):
            return Why(job, slot, "excluded", f"It won't run then: {words[:1].lower()}{words[1:]}")
    return None


def shown_next_run(row: Any) -> datetime | None:
    """Return the next run of a job, or of a row with its id, that is not left out."""
    slot: datetime | None = row.next_run_at
    if slot is None or not why_skipped(row, slot):
        return slot
    job = row if isinstance(row, Job) else Job.objects.find(row.public_id)
    return next(_slots(job, clock.now()), None) if job else slot


def _nearest_slot(job: Job, moment: datetime, now: datetime) -> datetime | None:
    """Return the planned slot of a pending job that is nearest to a moment, if there is one."""
    if job.status != Job.Status.PENDING or job.next_run_at is None:
        return None
    start = job.next_run_at
    if not job.max_runs and not job.ends_at:
        start = _start_near(job, moment) or start
    nearest = None
    for step, slot in enumerate(_slots(job, now, start=start)):
        if nearest and abs(slot - moment) >= abs(nearest - moment):
            return nearest
        if step == MOST_STEPS:
            return None
        nearest = slot
    return nearest


def _start_near(job: Job, moment: datetime) -> datetime | None:
    """Return the slot to start looking from for a distant moment; no earlier slot is as near to it."""
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
        return Why(job, job.next_run_at, "pending", "It isn't due yet.")
    if engine.is_any_cluster_running(now):
        return Why(job, job.next_run_at, "late", "It is due and about to start.")
    return Why(job, job.next_run_at, "late", "It is due, but the worker is offline.")


def _why_without_row(job: Job, moment: datetime, now: datetime, *, is_ahead: bool = False) -> Why:
    # Other events, such as edits, neither stop nor start a job.
    changes = Event.objects.filter(job=job, at__lte=moment, verb__in=[*_STOPPED, *_STARTED])
    last = changes.first()
    if last and last.verb == "restore":
        # A restored job has the state it had before it was deleted.
        last = changes.exclude(verb__in=["delete", "restore"]).first()
    if last and last.verb in _STOPPED:
        stopped = _STOPPED[last.verb]
        words = f"It was {_SHOWN_STOPS[last.verb]} by {last.actor} ({short_words(last.at, job.timezone)})."
        if is_ahead and job.paused_until:
            words += f" The pause ends on {short_words(job.paused_until, job.timezone)}."
        # Only a run whose time has come can have been skipped.
        verdict = stopped if is_ahead else Status.SKIPPED
        return Why(job, moment, verdict, words, detail=str(last.after.get("reason") or ""))
    if moment > now:
        return Why(job, moment, "pending", "That time is in the future.")
    return Why(job, moment, "nothing", "Nothing was scheduled around that time.")
