"""Facts about one run for its page: a line per attempt, and its response or output as a person reads it."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from schedules.models import Execution
from schedules.tasks.forms.fields import json_problem, looks_like_json

Status = Execution.Status


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, or the next one that is planned."""

    number: int
    state: str
    """How it ended, or what it does now; "retrying" for one that is planned."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""

    @property
    def took(self) -> timedelta | None:
        return self.finished_at - self.started_at if self.started_at and self.finished_at else None


def attempts_of(run: Execution) -> list[Attempt]:
    """List the attempts of a run, the last of which may be planned."""
    found = {
        each["attempt"]: Attempt(
            each["attempt"],
            "failed",
            datetime.fromisoformat(each["started_at"]),
            datetime.fromisoformat(each["finished_at"]),
            each["error"],
        )
        for each in run.earlier_attempts or []
    }
    for number in range(1, run.attempt + 1):
        found.setdefault(number, Attempt(number, "failed"))
    has_ended = run.status == Status.QUEUED
    if run.attempt and not has_ended:
        error = run.error if run.status != Status.SUCCEEDED else ""
        found[run.attempt] = Attempt(run.attempt, run.status, run.started_at, run.finished_at, error)
    attempts = [found[number] for number in sorted(found)]
    if run.status == Status.QUEUED and run.attempt:
        attempts.append(Attempt(run.attempt + 1, "retrying", run.available_at))
    return attempts


def response_of(run: Execution) -> tuple[str, str]:
    """Return a heading and the text of what a run returned; JSON is written for reading."""
    result = run.result
    if result is None:
        return "", ""
    if run.task == "webhook" and isinstance(result, dict) and "body" in result:
        return f"Response: HTTP {result.get('status')}", pretty_text(
            result["body"]
        ) or "The response is empty."
    return "Output", pretty_text(result)


def pretty_text(value: Any) -> str:
    """Write a value for reading: JSON, also in a text, is indented."""
    if isinstance(value, str):
        if not looks_like_json(value) or json_problem(value):
            return value
        value = json.loads(value)
    return json.dumps(value, ensure_ascii=False, indent=2)
