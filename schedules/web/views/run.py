"""The page of one run: its output, attempts and questions, and how it differs from the last success."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import unified_diff
from itertools import islice
from typing import Any

from django.conf import settings
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
)
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Execution
from schedules.services import run_list
from schedules.services.run_list import (
    read_again,
    runs_around,
)
from schedules.services.runs import answers
from schedules.services.runs.approvals import approvals_of, describe
from schedules.services.runs.explanations import explain
from schedules.services.runs.outputs import output_since
from schedules.services.runs.question_words import describe_question
from schedules.services.runs.runner_list import agent_run_of
from schedules.tasks import registry
from schedules.tasks.forms.fields import json_problem, looks_like_json
from schedules.web.views.job_facts import percentile, shown_values
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, finish, render_page

SHOWN_OUTPUT = 20_000
Status = Execution.Status
# How many earlier runs are searched.
MAX_RUNS_BEFORE = 200
COMPARED_LINES = 40
SHOWN_LINES = 30


class RunPage(LivePageMixin, TemplateView):
    template_name = "schedules/run.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        run = find_run(self.request, kwargs["run_id"])
        heading, output = response_of(run)
        console = console_of(run)
        zone = run.job.timezone if run.job else self.page.zone
        job = run.job if run.job and run.job.deleted_at is None else None
        can_change = job is not None and self.actor.may_change(job)
        neighbours = neighbours_of(run)
        return super().get_context_data(
            run=run,
            job=job,
            can_change=can_change,
            can_answer=can_change and run.status == Status.WAITING,
            is_held=run.is_held_at(self.page.now),
            most_typed=settings.CRONTY_MAX_JSON_BYTES,
            zone=zone,
            explanation=explain(run, zone),
            agent=agent_run_of(run),
            **self._approvals(run),
            attempts=attempts_of(run),
            heading=heading,
            output="" if console["console"].text else output[:SHOWN_OUTPUT],
            is_cut=len(output) > SHOWN_OUTPUT,
            **console,
            neighbours=neighbours,
            comparison=compare(run, neighbours, console["console"].text),
            runs_for=self.page.now - run.started_at if run.started_at and not run.finished_at else None,
            receipt=receipt(run),
            **self._question(run),
            values=shown_values(job) if job else [],
            **kwargs,
        )

    def _approvals(self, run: Execution) -> dict[str, Any]:
        """Return what the run has asked a person, and whether it still waits for an answer."""
        approvals = describe(self.actor, approvals_of(run))
        return {
            "approvals": approvals,
            "waits_for_answer": any(each.status == each.Status.WAITING for each in approvals),
        }

    def _question(self, run: Execution) -> dict[str, Any]:
        """Return the question that this run asked or repeated, and its state."""
        question = answers.question_of(run)
        if question is None or run.job is None:
            return {}
        return {"question": question, "question_words": describe_question(question, run.job)}


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, or its next retry."""

    number: int
    state: str
    """How it ended, or its current status; "retrying" for the next retry."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""

    @property
    def took(self) -> timedelta | None:
        return self.finished_at - self.started_at if self.started_at and self.finished_at else None


def attempts_of(run: Execution) -> list[Attempt]:
    """List the attempts of a run, including a planned retry."""
    by_number = {
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
        by_number.setdefault(number, Attempt(number, "failed"))
    has_ended = run.status == Status.QUEUED
    if run.attempt and not has_ended:
        error = run.error if run.status != Status.SUCCEEDED else ""
        by_number[run.attempt] = Attempt(run.attempt, run.status, run.started_at, run.finished_at, error)
    attempts = [by_number[number] for number in sorted(by_number)]
    if run.is_asking and run.attempt:
        attempts[-1] = replace(attempts[-1], state="asking")
    elif run.status == Status.QUEUED and run.attempt:
        attempts.append(Attempt(run.attempt + 1, "retrying", run.available_at))
    return attempts


def response_of(run: Execution) -> tuple[str, str]:
    """Return the result of a run as a heading and a text, with JSON indented."""
    result = run.result
    if result is None:
        return "", ""
    if run.task == "webhook" and isinstance(result, dict) and "body" in result:
        text = pretty_text(result["body"]) or "The response is empty."
        return f"Response: HTTP {result.get('status')}", text
    return "Output", pretty_text(result)


def pretty_text(value: Any) -> str:
    """Format a value for reading, with JSON indented, including JSON in a text."""
    if isinstance(value, str):
        if not looks_like_json(value) or json_problem(value):
            return value
        value = json.loads(value)
    return json.dumps(value, ensure_ascii=False, indent=2)


def find_run(request: HttpRequest, run_id: int) -> Execution:
    """Return a run that this user may see, or raise Http404."""
    run = run_list.find_run(actor_of(request), run_id)
    if run is None:
        raise Http404("run")
    return run


def console_of(run: Execution) -> dict[str, Any]:
    """Return the output of a command so far, and whether more may follow."""
    console = output_since(run)
    task = registry.get(run.task)
    is_running = run.status == Execution.Status.RUNNING
    return {"console": console, "is_following": is_running and task is not None and task.runs_program}


@require_safe
def console(request: HttpRequest, run_id: int) -> HttpResponse:
    """Render the output of a command, which the run's page polls while the command runs."""
    run = find_run(request, run_id)
    can_change = run.job is not None and actor_of(request).may_change(run.job)
    context = {"run": run, "can_change": can_change, **console_of(run)}
    return render_page(request, "schedules/parts/run_output.html", context)


@require_POST
def stop(request: HttpRequest, run_id: int) -> HttpResponse:
    """Stop a running command."""
    find_run(request, run_id)
    result = services.stop_run(actor_of(request), run_id)
    message = "Stopping the command and its child processes."
    return finish(request, result, message, reverse("schedules:run", args=[run_id]))


def result_text(result: Any) -> str:
    if result is None:
        return ""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2)


def receipt(run: Execution) -> str:
    """Return the server and topic that accepted a notification, or an empty text."""
    if not isinstance(run.result, dict) or run.status != Execution.Status.SUCCEEDED or run.task != "notify":
        return ""
    return f"{run.result.get('server')} · {run.result.get('topic')}"


@require_safe
def output(request: HttpRequest, run_id: int) -> HttpResponse:
    """Return the whole output as a file."""
    run = find_run(request, run_id)
    parts = [run.error, run.traceback, output_since(run).text, result_text(run.result)]
    response = HttpResponse("\n\n".join(filter(None, parts)), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="run-{run.pk}.txt"'
    return response


@dataclass(frozen=True)
class Neighbours:
    """The runs of a job around one of them."""

    previous: int | None = None
    following: int | None = None
    last_success: int | None = None
    usual_duration: timedelta | None = None
    """The median duration of the earlier successes."""


def neighbours_of(run: Execution) -> Neighbours:
    """Find the neighbours of a run, in the order of the index of its job."""
    if run.job_id is None:
        return Neighbours()
    before, following = runs_around(run, ("pk", "status", "started_at", "finished_at"), MAX_RUNS_BEFORE)
    succeeded = [each for each in before if each.status == Execution.Status.SUCCEEDED]
    durations = [
        each.finished_at - each.started_at for each in succeeded if each.started_at and each.finished_at
    ]
    return Neighbours(
        before[0].pk if before else None,
        following,
        succeeded[0].pk if succeeded else None,
        percentile(durations, 50),
    )


@dataclass(frozen=True)
class Comparison:
    """The differences between an unsuccessful run and the last success before it."""

    success: Execution
    exit_codes: tuple[Any, Any] | None
    diff: str


def compare(run: Execution, neighbours: Neighbours, output: str) -> Comparison | None:
    """Compare an unsuccessful run with the last success before it; return None if there is nothing to compare."""
    if run.finished_at is None or run.status == Execution.Status.SUCCEEDED or not run.attempt:
        return None
    if neighbours.last_success is None:
        return None
    success = read_again(neighbours.last_success)
    codes = (_exit_code(success.result), _exit_code(run.result))
    before = output_since(success).text
    lines = unified_diff(_tail(before), _tail(output), n=1, lineterm="")
    diff = "\n".join(line for line in islice(lines, 2, SHOWN_LINES) if not line.startswith("@@"))
    return Comparison(success, None if codes == (None, None) else codes, diff)


def _exit_code(result: Any) -> Any:
    return result.get("exit_code") if isinstance(result, dict) else None


def _tail(text: str) -> list[str]:
    return text.splitlines()[-COMPARED_LINES:]
