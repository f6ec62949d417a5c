"""Refusals: the parts that all tool families share."""

import math
from typing import NotRequired, TypeVar

from typing_extensions import TypedDict

from schedules.mcp.answers import line
from schedules.mcp.auth import current_actor
from schedules.mcp.messages import message_of
from schedules.result import Code, Err, sentence
from schedules.services.jobs.references import similar_jobs

DATABASE_AWAY = Err(Code.DATABASE_UNAVAILABLE)
_PERHAPS_DONE = (
    "The database did not answer, so this may or may not have been done: look before you repeat it"
)


class WaitOut(TypedDict):
    """The seconds after which to try again, if waiting helps."""

    retry_after: NotRequired[float]


Refusal = TypeVar("Refusal", bound=WaitOut)


def with_wait(out: Refusal, error: Err) -> Refusal:
    """Add the time to wait to a refusal, as a number."""
    if error.retry_after is not None:
        out["retry_after"] = math.ceil(error.retry_after * 10) / 10
    return out


def first_problem(error: Err) -> tuple[str, str]:
    """Return the first field that was refused, and the reason as the end of a sentence."""
    for name, messages in error.errors.items():
        why = " ".join(messages)
        return name, f"{why[:1].lower()}{why[1:]}".rstrip(".")
    return "", message_of(error).rstrip(".")


def did_you_mean(reference: object, task: str = "") -> str:
    """Suggest the jobs, or those of one task, whose name is most like a reference that matches none; empty if there are none."""
    actor = current_actor()
    if similar := similar_jobs(actor.jobs(), str(reference), task=task):
        suggestion = " or ".join(f'"{line(job.name, 200)}" ({job.public_id})' for job in similar)
        return f"No exact match. Did you mean {suggestion}?"
    if deleted := similar_jobs(actor.restorable(), str(reference), task=task, limit=1):
        suggestion = f'"{line(deleted[0].name, 200)}" ({deleted[0].public_id})'
        return f"No exact match. Did you mean {suggestion}, which was deleted? restore_job brings it back."
    return ""


def nothing_to_resume(error: Err, way_out: str) -> str:
    """Say that a job to resume has no run left, and what to do instead."""
    return f"{sentence(first_problem(error)[1])} {way_out}"


def perhaps_done(*, has_key: bool) -> str:
    """Say that a change may have been made; `has_key` is whether the tool takes an idempotency_key."""
    return f"{_PERHAPS_DONE}, or repeat it with the same idempotency_key" if has_key else _PERHAPS_DONE
