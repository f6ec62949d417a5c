"""Runs that ask a person: what they may do without asking, what they asked for, and how they go on."""

import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connections

from schedules import clock, limits
from schedules.agents import hook
from schedules.agents.adapters.base import Adapter
from schedules.agents.definitions import Runner
from schedules.agents.questions import LONGEST_QUESTION, prompt_with_answer, prompt_with_answers, question_in
from schedules.agents.reports import Call, Report
from schedules.agents.spending import Earlier, earlier_of
from schedules.models import AgentRun, Approval, Execution
from schedules.models.approvals import ASK_PERSON, MAX_PER_RUN, shown_arguments
from schedules.tasks.grants import covers, grant_of
from schedules.tasks.interface import Final

Status = Approval.Status

LONGEST_SHOWN = 10_000
LONGEST_WHY = 2000
_UNKNOWN_CALL = "it did not say which call"
_ASKED_OFTEN = f"it had asked {MAX_PER_RUN} times before"
_HOOK_SECONDS = 60
_RULES, _SETTINGS, _USED = "cronty-rules.json", "cronty-settings.json", "cronty-used"


class Standing(NamedTuple):
    """What a run may do, and what a person has answered before."""

    grants: Sequence[str] = ()
    """Those of its job."""
    asked: int = 0
    """How often it has asked."""
    last: Approval | None = None
    earlier: Earlier = Earlier()
    """The session that has asked."""
    answered: Sequence[Approval] = ()
    """The questions that a person has answered, in order."""
    interrupted: Approval | None = None
    """What was allowed while an earlier attempt ran, if that attempt came no further."""


def read_standing(execution_id: int) -> Standing:
    """Return what a run may do, and what it has asked before."""
    try:
        job = Execution.objects.filter(pk=execution_id).values_list("job__grants", flat=True).first()
        approvals = list(Approval.objects.filter(execution=execution_id).order_by("-pk")[: MAX_PER_RUN + 1])
        if not approvals:
            return Standing(job or ())
        newest = approvals[0]
        was_allowed = newest.in_run and newest.status in (Status.ALLOWED, Status.USED)
        interrupted = newest if was_allowed else None
        last = next((each for each in approvals if not each.in_run), None)
        if last is None:
            return Standing(job or (), len(approvals), interrupted=interrupted)
        row = AgentRun.objects.filter(execution=execution_id, attempt=last.attempt).first()
        earlier = earlier_of(row) if row and row.session_id else Earlier(last.session_id)
        answered = [each for each in reversed(approvals) if each.is_question and each.reply]
        return Standing(job or (), len(approvals), last, earlier, answered, interrupted)
    finally:
        # This thread is not used again.
        connections.close_all()


def use_approval(approval_id: int) -> bool:
    """Mark an approval as used, before its call is made; return False if it was used or is not allowed."""
    try:
        allowed = Approval.objects.filter(pk=approval_id, status=Status.ALLOWED)
        return bool(allowed.update(status=Status.USED, used_at=clock.now()))
    finally:
        connections.close_all()


def approval_to_use(standing: Standing) -> Approval | None:
    """Return the approval that the run goes on with, if it has asked; raises Final if it must not go on."""
    if standing.interrupted:
        raise Final(_why_call_is_not_repeated(standing.interrupted))
    last = standing.last
    if last is None:
        return None
    if last.status == Status.ALLOWED and last.is_genuine:
        return last
    if last.is_question:
        raise Final(_why_question_is_over(last))
    if last.status == Status.USED:
        raise Final(_why_call_is_not_repeated(last))
    if last.status == Status.ALLOWED:
        raise Final("What was allowed differs from what was asked, so it isn't done.")
    raise Final(f"Nobody has allowed {last.call_summary}.")


def _why_call_is_not_repeated(allowed: Approval) -> str:
    return (
        f"{allowed.answered_by} had allowed {allowed.call_summary}, and the run was interrupted after that: whether the call"
        " was made is unknown, so it isn't made again."
    )


def _why_question_is_over(question: Approval) -> str:
    if question.status == Status.USED:
        return (
            f"{question.answered_by} had answered, and the run was interrupted after that: how far it came is unknown,"
            " so it isn't repeated."
        )
    if question.status == Status.ALLOWED:
        return "What was answered differs from what was asked, so the run does not go on."
    return f"Nobody has answered. {question.request_sentence}"


def prompt_to_go_on(standing: Standing, prompt: str) -> str:
    """Return the prompt of a run that goes on after a person has answered: empty after a call that was allowed.

    Without a session, it is the whole prompt with everything that was asked and answered.
    """
    last = standing.last
    if last is None or not last.is_question:
        return ""
    if last.session_id:
        return prompt_with_answer(last)
    return prompt_with_answers(prompt, standing.answered)


def arguments_for_asking(
    runner: Runner,
    adapter: Adapter,
    grants: Sequence[str],
    approved: Approval | None,
    folder: str,
    socket: str,
) -> list[str]:
    """Write the rules of a run into its folder; return the arguments that make its program ask for the rest.

    With a `socket`, its hook waits there for the answer of a person.
    """
    place = Path(folder)
    rules: dict[str, Any] = {
        "granted": [*runner.tools, *grants],
        "may_edit": adapter.mode_of(runner) == "acceptEdits",
        "used": str(place / _USED),
        "socket": socket,
    }
    if approved and not approved.is_question:
        rules["approved"] = {
            "call_id": approved.call_id,
            "digest": approved.call_digest,
            "session_id": approved.session_id,
        }
    (place / _RULES).write_text(json.dumps(rules))
    # Isolated: what lies in the folder of the run, or in its environment, must not change what this program does.
    command = shlex.join([sys.executable, "-I", "-S", hook.__file__, str(place / _RULES)])
    waits = runner.wait_within.total_seconds() if socket and runner.wait_within else 0
    timeout = math.ceil(waits) + _HOOK_SECONDS
    hooks = [{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": timeout}]}]
    (place / _SETTINGS).write_text(json.dumps({"hooks": {"PreToolUse": hooks}}))
    return adapter.asking_arguments(str(place / _SETTINGS))


def request_of(
    report: Report, name: str, runner: Runner, asked: int, mask: Callable[[str], str]
) -> Mapping[str, Any] | str:
    """Return what a run asks a person, as columns of `Approval`, or why nobody can be asked."""
    if report.deferred is None:
        return _question_request(report, name, runner, asked, mask)
    if report.deferred_call is None:
        return _UNKNOWN_CALL
    return request_for(report.deferred_call, report.session_id, report.said, name, runner, asked, mask)


def request_for(
    call: Call,
    session_id: str,
    said: str,
    name: str,
    runner: Runner,
    asked: int,
    mask: Callable[[str], str],
) -> Mapping[str, Any] | str:
    """Return what a person is asked about a call, as columns of `Approval`, or why nobody can be asked."""
    if not call.id or not call.tool or not session_id:
        return _UNKNOWN_CALL
    if asked >= MAX_PER_RUN:
        return _ASKED_OFTEN
    if problem := limits.json_problem(call.arguments, max_bytes=4 * LONGEST_SHOWN):
        return f"its call cannot be shown: {problem.rstrip('.')}"
    arguments = _masked(call.arguments, mask)
    length = sum(len(key) + len(text) for key, text in shown_arguments(arguments))
    if length > LONGEST_SHOWN:
        return f"its call is too long to be shown whole: {length:,} characters, and {LONGEST_SHOWN:,} at most"
    if len(call.tool) > 200 or len(call.id) > 200 or limits.line_problem(call.tool + call.id):
        return "the name of its call cannot be shown"
    grant = grant_of(call.tool, call.arguments) if arguments == call.arguments else ""
    return {
        "runner": name,
        "session_id": session_id[:200],
        "folder": runner.directory or "",
        "call_id": call.id,
        "call_digest": hook.digest_of_call(call.tool, call.arguments),
        "tool": call.tool,
        "arguments": arguments,
        "why": limits.with_codes(mask(said.strip()[-LONGEST_WHY:])),
        "grant": grant if any(covers(allowed, grant) for allowed in runner.grantable) else "",
    }


def _question_request(
    report: Report, name: str, runner: Runner, asked: int, mask: Callable[[str], str]
) -> Mapping[str, Any] | str:
    found = question_in(report.answer)
    if found is None:
        return "it did not say what it asks"
    if asked >= MAX_PER_RUN:
        return _ASKED_OFTEN
    if len(found.question) > LONGEST_QUESTION:
        return f"its question is too long to be shown whole: {len(found.question):,} characters, and {LONGEST_QUESTION:,} at most"
    arguments = {
        "question": limits.with_codes(mask(found.question)),
        "choices": [limits.with_codes(mask(choice)) for choice in found.choices],
    }
    return {
        "runner": name,
        # Without one, the run goes on from the beginning.
        "session_id": report.session_id if runner.keeps_session and len(report.session_id) <= 200 else "",
        "folder": runner.directory or "",
        "call_id": "",
        "call_digest": hook.digest_of_call(ASK_PERSON, arguments),
        "tool": ASK_PERSON,
        "arguments": arguments,
        "why": limits.with_codes(mask(found.said[-LONGEST_WHY:])),
        "grant": "",
    }


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    match value:
        case str():
            return mask(value)
        case list():
            return [_masked(each, mask) for each in value]
        case dict():
            return {mask(key): _masked(each, mask) for key, each in value.items()}
    return value
