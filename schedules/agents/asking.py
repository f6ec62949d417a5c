"""Runs that ask a person: what they may do without asking, what they ask, and how they continue with the answer."""

import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from schedules import clock, limits
from schedules.agents import hook
from schedules.agents.adapters.base import Adapter
from schedules.agents.definitions import Runner
from schedules.agents.prompt_texts import (
    LONGEST_QUESTION,
    prompt_with_answer,
    prompt_with_answers,
    question_in,
)
from schedules.agents.reports import Call, Report
from schedules.agents.spending import EarlierSession, session_of
from schedules.models import AgentRun, Approval, Execution
from schedules.models.approvals import ASK_PERSON, MAX_PER_RUN, shown_arguments
from schedules.secrets.masking import Masker
from schedules.tasks.grants import covers, grant_of
from schedules.tasks.interface import Final

Status = Approval.Status

LONGEST_SHOWN = 10_000
LONGEST_CONTEXT = 2000
_UNKNOWN_CALL = "it did not say which call"
_TOO_MANY_QUESTIONS = f"it had asked {MAX_PER_RUN} times before"
_HOOK_SECONDS = 60
_RULES, _SETTINGS, _USED = "cronty-rules.json", "cronty-settings.json", "cronty-used"


class AskingState(NamedTuple):
    """What a run may do, and what it asked in earlier attempts."""

    grants: Sequence[str] = ()
    """The permissions that its job was granted."""
    question_count: int = 0
    """How often it has asked."""
    last: Approval | None = None
    """The last approval or question that ended an attempt."""
    session: EarlierSession = EarlierSession()
    """The session that asked it."""
    answered: Sequence[Approval] = ()
    """The questions that a person has answered, in order."""
    interrupted: Approval | None = None
    """A call that was allowed while an earlier attempt ran, if it is the last thing known of that attempt."""


def read_asking_state(execution_id: int) -> AskingState:
    """Return what a run may do, and what it has asked before."""
    grants = Execution.objects.filter(pk=execution_id).values_list("job__grants", flat=True).first()
    approvals = list(Approval.objects.filter(execution=execution_id).order_by("-pk")[: MAX_PER_RUN + 1])
    if not approvals:
        return AskingState(grants or ())
    newest = approvals[0]
    was_allowed = newest.in_run and newest.status in (Status.ALLOWED, Status.USED)
    interrupted = newest if was_allowed else None
    last = next((each for each in approvals if not each.in_run), None)
    if last is None:
        return AskingState(grants or (), len(approvals), interrupted=interrupted)
    row = AgentRun.objects.filter(execution=execution_id, attempt=last.attempt).first()
    session = session_of(row) if row and row.session_id else EarlierSession(last.session_id)
    answered = [each for each in reversed(approvals) if each.is_question and each.reply]
    return AskingState(grants or (), len(approvals), last, session, answered, interrupted)


def use_approval(approval_id: int) -> bool:
    """Mark an approval as used, before its call is made; return False if it is not allowed, or used already."""
    allowed = Approval.objects.filter(pk=approval_id, status=Status.ALLOWED)
    return bool(allowed.update(status=Status.USED, used_at=clock.now()))


def approval_to_use(state: AskingState) -> Approval | None:
    """Return the approval that the run continues with, or None if it has not asked; raises Final if it must not continue."""
    if state.interrupted:
        raise Final(_why_call_is_not_repeated(state.interrupted))
    last = state.last
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


def prompt_to_continue(state: AskingState, prompt: str) -> str:
    """Return the prompt of a run that continues after a person has answered; it is empty if a call was allowed.

    Without a session, it is the whole prompt with all questions and answers.
    """
    last = state.last
    if last is None or not last.is_question:
        return ""
    if last.session_id:
        return prompt_with_answer(last)
    return prompt_with_answers(prompt, state.answered)


def arguments_for_asking(
    runner: Runner,
    adapter: Adapter,
    grants: Sequence[str],
    approved: Approval | None,
    folder: str,
    socket: str,
) -> list[str]:
    """Write the rules for the hook into the run's folder; return the arguments that make its program use the hook.

    With a `socket`, the hook waits there for a person's answer.
    """
    run_folder = Path(folder)
    rules: dict[str, Any] = {
        "granted": [*runner.tools, *grants],
        "may_edit": adapter.mode_of(runner) == "acceptEdits",
        "used": str(run_folder / _USED),
        "socket": socket,
    }
    if approved and not approved.is_question:
        rules["approved"] = {
            "call_id": approved.call_id,
            "digest": approved.call_digest,
            "session_id": approved.session_id,
        }
    (run_folder / _RULES).write_text(json.dumps(rules))
    # -I and -S: neither files in the run's folder nor its environment must change what the hook does.
    command = shlex.join([sys.executable, "-I", "-S", hook.__file__, str(run_folder / _RULES)])
    wait_seconds = runner.wait_within.total_seconds() if socket and runner.wait_within else 0
    timeout = math.ceil(wait_seconds) + _HOOK_SECONDS
    hooks = [{"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": timeout}]}]
    (run_folder / _SETTINGS).write_text(json.dumps({"hooks": {"PreToolUse": hooks}}))
    return adapter.asking_arguments(str(run_folder / _SETTINGS))


class Asker(NamedTuple):
    """Makes the requests of one runner's run to a person, as columns of `Approval`."""

    name: str
    runner: Runner
    masker: Masker
    question_count: int
    """How often the run has asked before."""

    def request_at_end(self, report: Report) -> Mapping[str, Any] | str:
        """Return what a run asks at its end, or why nobody can be asked."""
        if report.deferred is None:
            return self._question(report)
        if report.deferred_call is None:
            return _UNKNOWN_CALL
        return self.request_for_call(report.deferred_call, report.session_id, report.last_text)

    def request_for_call(self, call: Call, session_id: str, context: str) -> Mapping[str, Any] | str:
        """Return what a person is asked about a call, or why nobody can be asked."""
        if not call.id or not call.tool or not session_id:
            return _UNKNOWN_CALL
        if self.question_count >= MAX_PER_RUN:
            return _TOO_MANY_QUESTIONS
        if problem := limits.json_problem(call.arguments, max_bytes=4 * LONGEST_SHOWN):
            return f"its call cannot be shown: {problem.rstrip('.')}"
        arguments = self.masker.mask_value(call.arguments)
        length = sum(len(key) + len(text) for key, text in shown_arguments(arguments))
        if length > LONGEST_SHOWN:
            return f"its call is too long to be shown whole: {length:,} characters, and {LONGEST_SHOWN:,} at most"
        if len(call.tool) > 200 or len(call.id) > 200 or limits.line_problem(call.tool + call.id):
            return "the name of its call cannot be shown"
        grant = grant_of(call.tool, call.arguments) if arguments == call.arguments else ""
        return self._request(
            call.tool,
            arguments,
            context.strip(),
            session_id=session_id[:200],
            call_id=call.id,
            call_digest=hook.digest_of_call(call.tool, call.arguments),
            grant=grant if any(covers(allowed, grant) for allowed in self.runner.grantable) else "",
        )

    def _question(self, report: Report) -> Mapping[str, Any] | str:
        question = question_in(report.answer)
        if question is None:
            return "it did not say what it asks"
        if self.question_count >= MAX_PER_RUN:
            return _TOO_MANY_QUESTIONS
        if len(question.text) > LONGEST_QUESTION:
            return f"its question is too long to be shown whole: {len(question.text):,} characters, and {LONGEST_QUESTION:,} at most"
        arguments = {
            "question": self._shown(question.text),
            "choices": list(map(self._shown, question.choices)),
        }
        # Without a session, the run starts again from the beginning.
        keeps_session = self.runner.keeps_session and len(report.session_id) <= 200
        return self._request(
            ASK_PERSON,
            arguments,
            question.context,
            session_id=report.session_id if keeps_session else "",
            call_id="",
            call_digest=hook.digest_of_call(ASK_PERSON, arguments),
            grant="",
        )

    def _request(self, tool: str, arguments: Any, context: str, **columns: str) -> Mapping[str, Any]:
        return {
            "runner": self.name,
            "folder": self.runner.directory or "",
            "tool": tool,
            "arguments": arguments,
            "why": self._shown(context[-LONGEST_CONTEXT:]),
            **columns,
        }

    def _shown(self, text: str) -> str:
        return limits.with_codes(self.masker.mask(text))
