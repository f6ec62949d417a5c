"""Answers of the tool that changes many jobs at once."""

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.models import Job
from schedules.services.jobs.bulk import Changed

SHOWN = 10
NEXT_STEP = "Nothing has been changed. Show this to the user; if they agree, repeat the call with confirm, within ten minutes."

NOT_AGREED = "The user was asked and did not agree: nothing has been changed."


class WouldChangeOut(TypedDict):
    """The jobs that a call would change, the first of them by name, and the token that confirms it."""

    would_change: int
    jobs: list[answers.OtherJobOut]
    confirm: NotRequired[str]
    paused_until: NotRequired[str]
    next_step: str
    error: NotRequired[str]


class ChangedJobsOut(TypedDict):
    """The number of changed jobs, the first of them by name, and the call that undoes it."""

    changed: int
    jobs: list[answers.OtherJobOut]
    undo: NotRequired[str]
    paused_until: NotRequired[str]
    note: NotRequired[str]


def would_change_out(
    rows: list[tuple[str, str]],
    confirm: str,
    problem: str = "",
    *,
    is_cut: bool = False,
    paused_until: str | None = None,
    ending: int = 0,
) -> WouldChangeOut:
    """Return what would be changed.

    `rows` are ids and names, `problem` is why a confirmation was refused, `is_cut` is whether older runs were not
    looked through, and `ending` is how many jobs have no run left after the pause.
    """
    steps = [answers.OLDER_RUNS] if is_cut else []
    steps += [_ending(ending)] if ending else []
    steps.append(NEXT_STEP if rows else "No job matches: nothing is to be done.")
    out: WouldChangeOut = {
        "would_change": len(rows),
        "jobs": _shown(rows),
        "next_step": " ".join(steps),
    }
    if rows and paused_until:
        out["paused_until"] = paused_until
    if rows:
        out["confirm"] = confirm
    if problem:
        out["error"] = problem
    return out


def not_agreed_out(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Return what would have been changed, after the person has refused it."""
    shown = {name: value for name, value in preview.items() if name != "confirm"}
    return shown | {"next_step": NOT_AGREED}


def _ending(count: int) -> str:
    return f"Jobs that have no run left after this pause, and end: {count}."


def changed_out(
    action: str, done: Changed, *, paused_until: str | None = None, ending: int = 0
) -> ChangedJobsOut:
    out: ChangedJobsOut = {"changed": len(done.jobs), "jobs": _shown(_rows(done.jobs))}
    if paused_until:
        out["paused_until"] = paused_until
    if done.undo:
        out["undo"] = f'bulk_jobs(action="undo", confirm="{done.undo}")'
    notes = [_ending(ending)] if ending else []
    if done.left:
        named = ", ".join(name for _, name in _rows(done.left[:3]))
        is_paused = all(job.status == Job.Status.PAUSED and job.deleted_at is None for job in done.left)
        what = "stayed paused" if is_paused else "could not be restored"
        why = ": no run is left, or agents may not use the task" if is_paused else ""
        notes.append(f"{len(done.left)} {what}, like {named}{why}.")
    if action == "resume" and done.jobs:
        notes.append("To undo this, pause them again.")
    if notes:
        out["note"] = " ".join(notes)
    return out


def _rows(jobs: Iterable[Job]) -> list[tuple[str, str]]:
    return [(job.public_id, answers.line(job.name, 200)) for job in jobs]


def _shown(rows: list[tuple[str, str]]) -> list[answers.OtherJobOut]:
    return [{"job_id": job_id, "name": answers.line(name, 200)} for job_id, name in rows[:SHOWN]]
