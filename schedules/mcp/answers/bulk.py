"""Answers of the tool that changes many jobs at once."""

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.services.activity import changes_between
from schedules.services.jobs import bulk
from schedules.services.jobs.edits import PreparedEdit

# How many jobs an answer lists.
SHOWN = 50


class ShownJobOut(answers.OtherJobOut):
    """A job, and what an update changes in it, as "old → new"."""

    change: NotRequired[str]


class WouldChangeOut(TypedDict):
    """The jobs that a call would change, the first of them by name, and the token that confirms it."""

    would_change: int
    jobs: list[ShownJobOut]
    confirm: NotRequired[str]
    paused_until: NotRequired[str]
    starting: NotRequired[str]
    next_step: str
    error: NotRequired[str]


class ChangedJobsOut(TypedDict):
    """The number of changed jobs, the first of them by name, and the call that undoes it."""

    changed: int
    jobs: list[ShownJobOut]
    undo: NotRequired[str]
    paused_until: NotRequired[str]
    starting: NotRequired[str]
    note: NotRequired[str]


def shown_edit(edit: PreparedEdit) -> ShownJobOut:
    """Return a job with its changes, as "old → new"."""
    changes = "; ".join(change.text for change in changes_between(edit.before, edit.after, edit.job))
    return {
        "job_id": edit.job.public_id,
        "name": answers.line(edit.job.name, 200),
        "change": answers.line(changes, 300),
    }


def changed_out(done: bulk.BulkChange, shown: list[ShownJobOut], notes: Sequence[str]) -> ChangedJobsOut:
    out: ChangedJobsOut = {"changed": len(done.jobs), "jobs": shown}
    if done.undo:
        out["undo"] = answers.undo_call(done.undo)
    all_notes = [*notes]
    if waiting := [job for job in done.jobs if job.proposed_at]:
        all_notes.append(
            f"{len(waiting)} wait for your user's confirmation: ask them to confirm it on the page of jobs."
        )
    if done.unchanged:
        names = ", ".join(answers.line(job.name, 200) for job in done.unchanged[:3])
        all_notes.append(
            f"{len(done.unchanged)} stayed paused, like {names}: no run is left, or agents may not use the task."
        )
    if all_notes:
        out["note"] = " ".join(all_notes)
    return out


def first_jobs(jobs: Sequence[Any]) -> list[ShownJobOut]:
    return [{"job_id": job.public_id, "name": answers.line(job.name, 200)} for job in jobs[:SHOWN]]
