"""Operations on many jobs: changes that are shown before they are confirmed, and undo."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schedules import clock
from schedules.models.counting import counted
from schedules.result import Code, Document, Err, RefusedError, expect, invalid, operation, sentence
from schedules.services.activity import changes_between
from schedules.services.documents import iso_in, named_jobs
from schedules.services.jobs import bulk, moves, undo
from schedules.services.jobs.edits import PreparedEdit
from schedules.services.jobs.moves import move_later, read_clock, read_move
from schedules.services.jobs.pause_all import pause_reason, what_goes_on
from schedules.services.jobs.states import pause_problem
from schedules.services.permissions import Actor
from schedules.services.reading import job_query, read_moment, read_pause_end, read_value
from schedules.spec.readers import read_zone
from schedules.when.phrases import parse_moment

UPDATE = "update"
ACTIONS = (*bulk.STATUSES, UPDATE)
MAX_SHOWN = 50
OLDER_RUNS = "Older runs were not looked through: counts may be too low, and jobs may be missing."
# What an update takes, and nothing else does.
OF_UPDATE = (
    "at_time",
    "in_timezone",
    "shift",
    "time",
    "timezone",
    "add_tags",
    "remove_tags",
    "topic",
    "starting",
)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a call would change, and the function that changes it and says what it has done."""

    revisions: Mapping[int, int]
    apply: Callable[[], Document]
    shown: Document
    notes: Sequence[str] = ()


@operation
def change_jobs(actor: Actor, action: str, *, confirm: str | None = None, **request: Any) -> Document:
    """Do the same to all jobs that match, up to 500; an update shifts times, or sets a time of day, a zone, tags or a topic.

    The first call changes nothing: it answers which jobs would be changed, with `confirm`. The same request with
    `confirm` changes exactly these, within ten minutes.
    """
    # A phrase like "in an hour" means a later moment in the second call, so the phrase is confirmed.
    given = {name: value for name, value in request.items() if value not in (None, "", [])}
    plan = _plan_update(actor, given) if action == UPDATE else _plan_change(actor, action, given)
    confirmed = {"action": action, **given}
    if confirm:
        if stale := bulk.confirmation_problem(actor, confirm, confirmed, [*plan.revisions.items()]):
            raise RefusedError(stale)
        done = plan.apply()
        note = " ".join(filter(None, [*plan.notes, done.pop("note", "")]))
        return {"is_done": True, **plan.shown, **done, "note": note}
    token = bulk.confirmation_of(actor, confirmed, [*plan.revisions.items()]) if plan.revisions else None
    note = " ".join(plan.notes)
    return {"is_done": False, "confirm": token, **plan.shown, "note": note}


def _plan_change(actor: Actor, action: str, given: Mapping[str, Any]) -> _Plan:
    """Plan to pause, resume, cancel or delete the jobs that match."""
    if action not in bulk.STATUSES:
        raise RefusedError(invalid("action", f"choose one of: {', '.join(ACTIONS)}"))
    if action != "pause":
        _refuse_pause(given)
    if misplaced := next((name for name in OF_UPDATE if name in given), None):
        raise RefusedError(invalid(misplaced, 'only the action "update" takes it'))
    now, zone = clock.now(), actor.read_profile().zone
    query = job_query(actor, given, now)
    until = read_pause_end(given.get("until"), zone, now)
    is_everything = action == "pause" and query.selects_all_pending
    reason = pause_reason(given.get("reason", ""), is_everything=is_everything)
    if problem := pause_problem(reason, until, now):
        raise RefusedError(problem)
    jobs, are_runs_cut = bulk.matching_jobs(actor, action, query)
    _check_number(jobs)
    keys = [job.pk for job in jobs]
    ending = bulk.count_ending(keys, until) if until else 0

    def apply() -> Document:
        done = expect(bulk.change_jobs(actor, action, keys, reason=reason, until=until))
        note = ""
        if done.unchanged:
            note = f"{len(done.unchanged)} stayed paused, like {done.unchanged[0].name}: no run is left, or you may not use the task."
        return {
            "count": len(done.jobs),
            "jobs": named_jobs(done.jobs[:MAX_SHOWN]),
            "undo": done.undo,
            "note": note,
        }

    return _Plan(
        revisions={job.pk: job.revision for job in jobs},
        apply=apply,
        shown={
            "count": len(jobs),
            "jobs": named_jobs(jobs[:MAX_SHOWN]),
            "paused_until": iso_in(until, zone),
        },
        notes=[
            *([OLDER_RUNS] if are_runs_cut else []),
            *(
                [f"{counted(ending, 'job')} of these would have no run left after the pause, and end."]
                if ending
                else []
            ),
            *([what_goes_on(actor)] if is_everything else []),
        ],
    )


def _plan_update(actor: Actor, given: Mapping[str, Any]) -> _Plan:
    """Plan the same edit of all jobs that match, at once or at a later moment."""
    _refuse_pause(given)
    now, zone = clock.now(), actor.read_profile().zone
    zones = {
        name: read_value(read_zone, given[name], name)
        for name in ("timezone", "in_timezone")
        if name in given
    }
    move = expect(read_move({**given, **zones}))
    at = expect(read_clock(given.get("at_time"), "at_time"))
    starting = _read_start(given.get("starting"), zone, now)
    query = job_query(actor, given, now)
    jobs, are_runs_cut = moves.jobs_to_move(actor, query, timezone=zones.get("in_timezone"), at=at)
    _check_number(jobs)
    plan = moves.plan_moves(actor, jobs, move)
    revisions = {edit.old.pk: edit.old.revision for edit in plan.edits}

    def apply() -> Document:
        if starting:
            mover = expect(move_later(actor, [edit.old for edit in plan.edits], move, starting)).job
            return {"undo": mover.event.pk if mover.event else None, "updated_by": mover.public_id}
        done = expect(moves.move_jobs(actor, list(revisions), revisions, move))
        waiting = counted(sum(job.proposed_at is not None for job in done.jobs), "job")
        note = "" if waiting.startswith("0") else f"Waiting until a person confirms the change: {waiting}."
        return {"count": len(done.jobs), "undo": done.undo, "note": note}

    return _Plan(
        revisions=revisions,
        apply=apply,
        shown={
            "count": len(plan.edits),
            "jobs": [_shown_edit(edit) for edit in plan.edits[:MAX_SHOWN]],
            "unmoved": [
                {"id": job.public_id, "name": job.name, "why": why} for job, why in plan.unmoved[:MAX_SHOWN]
            ],
            "starting": iso_in(starting, zone),
        },
        notes=[OLDER_RUNS] if are_runs_cut else [],
    )


def _refuse_pause(given: Mapping[str, Any]) -> None:
    if "until" in given or "reason" in given:
        raise RefusedError(invalid("until", "only a pause has an end and a reason"))


def _check_number(jobs: Sequence[Any]) -> None:
    if len(jobs) > bulk.MAX_JOBS:
        raise RefusedError(Err(Code.TOO_MANY_MATCHES, limit=bulk.MAX_JOBS))


def _read_start(text: str | None, zone: str, now: datetime) -> datetime | None:
    if text is None:
        return None
    starting = read_moment(parse_moment, text, "starting", zone, now, may_be_day=True)
    if starting <= now:
        raise RefusedError(invalid("starting", "it is in the past; leave it out for now"))
    return starting


def _shown_edit(edit: PreparedEdit) -> Document:
    changes = "; ".join(change.text for change in changes_between(edit.before, edit.after, edit.job))
    return {"id": edit.job.public_id, "name": edit.job.name, "change": changes}


@operation
def undo_change(actor: Actor, *, change: int | None = None) -> Document:
    """Undo your last call that changed jobs, or any change by its number from `GET /events`."""
    events = undo.last_call(actor) if change is None else undo.events_of_call(actor, change)
    if isinstance(events, Err):
        raise RefusedError(events)
    if not events:
        raise RefusedError(invalid("change", "there is no such change that can still be undone"))
    done = expect(undo.undo(actor, events))
    return {
        "jobs": named_jobs(done.jobs[:MAX_SHOWN]),
        "refused": [
            {
                "id": event.job.public_id if event.job else "",
                "name": event.subject,
                "why": sentence(error.text),
            }
            for event, error in done.refused[:MAX_SHOWN]
        ],
    }
