"""Undo: reverse the changes that events recorded, unless something has changed them since."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from schedules import clock
from schedules.models import Event, Job
from schedules.result import Code, Err, Ok, Result
from schedules.secrets.masking import MASK, masked
from schedules.services.jobs.creation import changes_of
from schedules.services.jobs.edits import edit
from schedules.services.jobs.proposals import withdraw_confirmation
from schedules.services.jobs.states import cancel, delete, pause, pause_of, restore, resume
from schedules.services.permissions import Actor, change_row, locked_job, not_found, record
from schedules.services.runs.answers import UNDO, answer, is_last_answer
from schedules.when.skips import still_ahead

UNDOABLE = ("create", "edit", "pause", "resume", "confirm", "cancel", "delete", "restore", "answer")
# How many changes one request reverses.
MAX_EVENTS = 500
# The columns that the events of one call or click have in common.
CALL = ("owner", "actor", "door", "verb", "at")
# How many of the newest events are scanned for those to reverse.
MAX_SCANNED = 10_000


@dataclass(frozen=True, slots=True)
class Reversal:
    """What would reverse one event: an action and the values that it restores, or why that is not possible."""

    event: Event
    action: str = ""
    before: dict[str, Any] | None = None
    """The current values of the edited fields, as events store them."""
    after: dict[str, Any] | None = None
    refusal: Err | None = None


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The changed jobs, and the events that could not be reversed, with the reason."""

    jobs: Sequence[Job]
    refused: Sequence[tuple[Event, Err]] = ()


def undoable_events(actor: Actor) -> QuerySet[Event]:
    """Return events about jobs that the actor sees, except reversals and what was reversed, newest first."""
    events = Event.objects.filter(verb__in=UNDOABLE, undoes=None, job__isnull=False)
    events = actor.visible(events.exclude(Exists(_reversals())), "job__task")
    return events.select_related("job").order_by("-pk")


def _reversals() -> QuerySet[Event]:
    return Event.objects.filter(undoes=OuterRef("pk"))


def undoable_among(actor: Actor, event_ids: Collection[int]) -> list[Event]:
    """Return which of these events can be undone, newest first."""
    return list(undoable_events(actor).filter(pk__in=event_ids))


def events_of_call(actor: Actor, event_id: int) -> list[Event]:
    """Return all events that the same call or click recorded, newest first."""
    event = undoable_events(actor).filter(pk=event_id).values("pk", "job", *CALL).first()
    return _same_call(actor, event) if event else []


def _same_call(actor: Actor, event: Mapping[str, Any]) -> list[Event]:
    """Return the events that can be undone of the call that recorded this one."""
    call: dict[str, Any] = {name: event[name] for name in CALL}
    # One call changes each job once.
    is_of_call = Q(pk=event["pk"]) | ~Q(job=event["job"])
    return list(undoable_events(actor).filter(is_of_call, **call)[:MAX_EVENTS])


def latest_events(actor: Actor, verb: str, job_ids: Sequence[str]) -> list[Event]:
    """Return the actor's last event with this verb about each of these jobs."""
    own = Event.objects.filter(
        job__public_id__in=job_ids, verb=verb, actor=actor.label, door=actor.door
    ).order_by()
    latest = own.values("job").annotate(latest=Max("pk")).values("latest")
    return list(undoable_events(actor).filter(pk__in=latest))


def last_call(actor: Actor) -> list[Event] | Err:
    """Return the events of this actor's last call, or why it cannot be undone: no earlier one is undone instead.

    Calls that were undone do not count, so calls can be undone one after the other.
    """
    own = Event.objects.filter(
        owner=actor.user.pk, actor=actor.label, door=actor.door, undoes=None, pk__in=_newest(actor)
    )
    if actor.tasks is not None:
        own = own.filter(Q(job=None) | actor.within_tasks("job__task"))
    calls = own.exclude(Exists(_reversals())).order_by("-pk")
    if (last := calls.values("pk", "job", "subject", "before", *CALL).first()) is None:
        return []
    verb, subject = last["verb"], last["subject"]
    if verb == "set preferences":
        # With their old values, which the caller can set again.
        subject = ", ".join(f"{name} was {value or 'not set'}" for name, value in last["before"].items())
    code = Code.STARTED_RUN_NOT_UNDOABLE if verb == "run" else Code.LAST_CALL_NOT_UNDOABLE
    events = _same_call(actor, last) if last["job"] and verb in UNDOABLE else []
    return events or Err(code, subject, state=verb)


def events_since(actor: Actor, made_by: str, since: datetime) -> list[Event]:
    """Return what a person or agent has changed since a moment, newest first."""
    events = undoable_events(actor).filter(actor=made_by, at__gte=since, pk__in=_newest(actor))
    return list(events[:MAX_EVENTS])


def _newest(actor: Actor) -> QuerySet[Event, Any]:
    return actor.events().order_by("-pk").values("pk")[:MAX_SCANNED]


def plan_undo(events: Sequence[Event]) -> list[Reversal]:
    """Return what would reverse each of these events in the current state of its job, without changing anything."""
    return [_reversal_of(event) for event in events]


def undo(actor: Actor, events: Sequence[Event]) -> Result[UndoResult]:
    """Reverse these events, newest first, each in a transaction of its own; fail only if none could be reversed."""
    jobs, refused = [], []
    for event in sorted(events, key=lambda event: -event.pk):
        match _undo_one(replace(actor, undoes=event.pk), event):
            case Ok(job):
                jobs.append(job)
            case Err() as error:
                refused.append((event, error))
    if refused and not jobs:
        return refused[0][1]
    return Ok(UndoResult(jobs, refused))


def _undo_one(actor: Actor, event: Event) -> Result[Job]:
    if event.job is None:
        return not_found(event.subject)
    with transaction.atomic():
        if not Event.objects.select_for_update().filter(pk=event.pk, undoes=None).exists():
            return not_found(event.job.public_id)
        if Event.objects.filter(undoes=event.pk).exists():
            return Err(Code.CHANGE_ALREADY_UNDONE)
        # Restoring a job locks the owner before the job; all else needs only the job's lock.
        if event.verb not in ("cancel", "delete"):
            event.job = Job.objects.select_for_update(of=("self",)).get(pk=event.job.pk)
        reversal = _reversal_of(event)
        return reversal.refusal or _apply(actor, reversal)


def _reversal_of(event: Event) -> Reversal:
    job = event.job
    if job is None:
        return Reversal(event, refusal=not_found(event.subject))
    is_stopped = job.deleted_at is not None or job.status == Job.Status.CANCELLED
    changed_since = Reversal(event, refusal=Err(Code.JOB_CHANGED_AGAIN, job.public_id))
    match event.verb:
        case "create":
            return changed_since if job.deleted_at else Reversal(event, "delete")
        case "edit" if "skips" in event.after:
            skips = {"skips": job.skips.split()}
            if is_stopped or skips["skips"] != event.after["skips"]:
                return changed_since
            return Reversal(event, "skip", skips, event.before)
        case "answer":
            return Reversal(event, "reopen") if is_last_answer(event) else changed_since
        case "edit":
            current = masked(changes_of(job, event.after))
            if is_stopped or current != event.after:
                return changed_since
            if _mentions_mask(event):
                return Reversal(event, refusal=Err(Code.CHANGED_SECRET_NOT_KEPT, job.public_id))
            return Reversal(event, "edit", current, event.before)
        case "pause" if event.before:
            is_same = job.status == Job.Status.PAUSED and pause_of(job) == event.after
            return Reversal(event, "pause", event.after, event.before) if is_same else changed_since
        case "pause":
            is_same = job.status == Job.Status.PAUSED and job.paused_at == event.at and not job.deleted_at
            return Reversal(event, "resume") if is_same else changed_since
        case "resume":
            is_same = job.status == Job.Status.PENDING and not job.deleted_at
            return Reversal(event, "pause", {}, event.before) if is_same else changed_since
        case "confirm":
            is_same = job.status == Job.Status.PENDING and not job.deleted_at
            return Reversal(event, "unconfirm", {}, {}) if is_same else changed_since
        case "cancel" | "delete" if is_stopped:
            return Reversal(event, "restore")
        case "restore" if not is_stopped:
            stopped_by = Event.objects.filter(job=job, verb__in=("cancel", "delete"), pk__lt=event.pk)
            last = stopped_by.order_by("-pk").values_list("verb", flat=True).first()
            return Reversal(event, last) if last else changed_since
        case _:
            return changed_since


def _apply(actor: Actor, reversal: Reversal) -> Result[Job]:
    event, values = reversal.event, reversal.after or {}
    assert event.job is not None
    job, job_id, now = event.job, event.job.public_id, clock.now()
    until = datetime.fromisoformat(values["until"]) if values.get("until") else None
    match reversal.action:
        case "delete":
            return delete(actor, job_id)
        case "cancel":
            return cancel(actor, job_id)
        case "restore":
            return restore(actor, job_id, is_deleted=event.verb == "delete", stopped_at=event.at)
        case "resume":
            return resume(actor, job_id)
        case "pause":
            ahead = until if until and until > now else None
            return pause(actor, job_id, reason=values.get("reason") or "", until=ahead)
        case "unconfirm":
            return withdraw_confirmation(actor, job_id, event.before)
        case "reopen":
            reopened = answer(actor, job_id, UNDO)
            return Ok(reopened.value.job) if isinstance(reopened, Ok) else reopened
        case "skip":
            return _set_skips(actor, job_id, values["skips"], now)
        case _:
            columns = {column.name: column for column in Job._meta.concrete_fields}
            fields = {name: columns[name].to_python(value) for name, value in values.items()}
            return edit(actor, job_id, seen=job, **fields)


def _set_skips(actor: Actor, job_id: str, entries: Sequence[str], now: datetime) -> Result[Job]:
    job = locked_job(actor, job_id)
    if isinstance(job, Err):
        return job
    before, after = job.skips.split(), still_ahead(entries, now)
    change_row(job, now, skips=" ".join(after))
    record(actor, "edit", now, job=job, before={"skips": before}, after={"skips": after})
    return Ok(job)


def _mentions_mask(event: Event) -> bool:
    """Return whether the edit changed a masked argument, whose old value is unknown."""
    columns = [(event.before.get(name), event.after.get(name)) for name in ("args", "kwargs")]
    return any(MASK in str(before) and before == after for before, after in columns)
