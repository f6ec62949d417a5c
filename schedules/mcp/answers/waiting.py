"""The answer of the resource that lists what waits for a person."""

from datetime import datetime
from typing import Any

from schedules import limits
from schedules.mcp import answers
from schedules.services import Actor
from schedules.services.runs.approvals import permission_of, permission_words
from schedules.services.waiting_list import Request, answered_requests, waiting_requests
from schedules.tasks.links import page_of_job

MAX_TEXT_LENGTH = 2000


def waiting_out(actor: Actor, now: datetime) -> dict[str, Any]:
    """Return what waits for a person, and the last answers; texts of agents and people are data."""
    zone = actor.read_profile().zone
    waiting, has_more = waiting_requests(actor)
    return {
        "timezone": zone,
        "waiting": [_request_out(request, zone) for request in waiting],
        "is_complete": not has_more,
        "answered": [_request_out(request, zone) for request in answered_requests(actor, now)],
        "note": "Only a person answers: jobs on their page, calls and questions in the inbox or by the link of an alert.",
    }


def _request_out(request: Request, zone: str) -> dict[str, Any]:
    job = request.job
    out: dict[str, Any] = {
        "kind": "job",
        "job_id": job.public_id,
        "name": answers.line(job.name, 200),
        "by": answers.line(request.by, 200),
        "since": answers.iso(request.asked_at, zone),
    }
    if request.approval:
        out |= _approval_out(request, zone)
    if request.answered_at:
        out |= {
            "answer": answers.line(request.answer, 300),
            "answered_at": answers.iso(request.answered_at, zone),
        }
    elif not request.approval:
        out["page"] = page_of_job(job.public_id)
    return out


def _approval_out(request: Request, zone: str) -> dict[str, Any]:
    approval = request.approval
    assert approval is not None
    out: dict[str, Any] = {"id": approval.pk, "execution_id": approval.execution_id}
    if approval.is_question:
        out |= {"kind": "question", "question": _cut(approval.question)}
        if approval.choices:
            out["choices"] = approval.choices
        if approval.reply:
            out["reply"] = _cut(limits.strip_unprintable(approval.reply))
    else:
        out |= {
            "kind": "call",
            "call": approval.call_summary,
            "permission": permission_of(approval) or None,
            "about_permission": permission_words(approval),
        }
    if not request.answered_at:
        out["until"] = answers.iso(approval.expires_at, zone)
    return out


def _cut(text: str) -> str:
    return limits.shortened(text, MAX_TEXT_LENGTH)
