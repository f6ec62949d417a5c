"""Answers of `upcoming` about a rehearsed period."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from schedules.mcp import answers
from schedules.services.rehearsal.documents import describe_total, rehearsal_document
from schedules.services.rehearsal.rehearsal import Rehearsal

MAX_LINES = 100


class RunsOut(TypedDict):
    """One upcoming run, or the first of several of the same job, with their number, the last, and its schedule."""

    at: str
    job_id: str
    name: str
    task: str
    runs: NotRequired[int]
    last: NotRequired[str]
    description: NotRequired[str]


class AheadOut(TypedDict):
    """The jobs that run in a period, by their first run in it, with their number; rehearsed, also what gets in the way."""

    upcoming: list[RunsOut]
    count: int
    since: NotRequired[str]
    until: str
    warning: NotRequired[str]
    rehearsal: NotRequired[Any]


def add_rehearsal(out: AheadOut, rehearsal: Rehearsal, zone: str) -> list[str]:
    """Add a rehearsal to the answer of `upcoming`, and return notes about it."""
    document: dict[str, Any] = answers.readable(rehearsal_document(rehearsal, zone, MAX_LINES))
    jobs = document["jobs"]
    out["upcoming"] = [_coming(job) for job in jobs if job["runs"]]
    out["count"] = document["runs"]
    details: dict[str, Any] = {"left_out": [_left_out(job, each) for job in jobs for each in job["left_out"]]}
    if problems := {job["id"]: answers.line(job["problem"], 300) for job in jobs if job["problem"]}:
        details["problems"] = problems
    if document["crowds"]:
        details["crowds"] = document["crowds"]
    if document["queues"]:
        details["queues"] = document["queues"]
    if rehearsal.spend:
        details["spend"] = describe_total(rehearsal.spend)
        details["spend_by_job"] = {job["id"]: job["spend"] for job in jobs if job["spend"]}
    out["rehearsal"] = details
    notes: list[str] = document["notes"]
    return notes


def _left_out(job: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
    return {
        "job_id": job["id"],
        "name": answers.line(job["name"], 200),
        "reason": answers.line(each["reason"], 300),
        "count": each["count"],
        "first": each["first"],
        "last": each["last"],
    }


def _coming(job: dict[str, Any]) -> RunsOut:
    out: RunsOut = {
        "at": job["first"],
        "job_id": job["id"],
        "name": answers.line(job["name"], 200),
        "task": job["task"],
    }
    if job["runs"] > 1:
        out |= {"runs": job["runs"], "last": job["last"]}
    if job["after"]:
        out["description"] = answers.line(f"After {job['after']}", 300)
    return out
