"""Recorded streams of agent programs: what each one prints when a run ends in one way or another."""

import json
from typing import Any

from schedules.agents.verdicts import Ending, Verdict

DONE_TEXT = "I tidied the notes.\n\nTwo files moved."
NOTHING_TEXT = "No new mail.\n**Nothing to do.**"
NEEDS_TEXT = "There are two drafts.\nNEEDS YOU: which one shall I send?"
PUSH = {"command": "git push origin main", "description": "push"}
SESSION = "1bad7d2a-0e96-48d1-addb-bba2ae5d0275"
TEXTS = {"done": DONE_TEXT, "nothing to do": NOTHING_TEXT, "asks a person": NEEDS_TEXT, "empty answer": ""}

Lines = list[dict[str, Any]]
# Endings that every program can have, and their verdicts: with the stream of that name, or of "done" if it has none.
COMMON: dict[str, tuple[Ending, Verdict]] = {
    "done": (Ending(), Verdict.DONE),
    "nothing to do": (Ending(), Verdict.NOTHING_TO_DO),
    "asks a person": (Ending(), Verdict.NEEDS_YOU),
    "empty answer": (Ending(), Verdict.UNKNOWN),
    "says nothing at all": (Ending(), Verdict.UNKNOWN),
    "no last line": (Ending(), Verdict.UNKNOWN),
    "dies in the middle": (Ending(code=None, signal="SIGKILL"), Verdict.FAILED),
    "fails before its first line": (Ending(code=1, final_output="no such option"), Verdict.FAILED),
    "denied": (Ending(), Verdict.REFUSED),
    "reports an error": (Ending(code=1), Verdict.FAILED),
    "reports an error and exits with 0": (Ending(), Verdict.FAILED),
    "ends well but exits with 1": (Ending(code=1), Verdict.FAILED),
    "stopped for time": (Ending(code=None, signal="SIGTERM", stopped_for="time"), Verdict.TIMED_OUT),
    "stopped for tokens": (Ending(stopped_for="tokens"), Verdict.OVER_BUDGET),
    "stopped for turns": (Ending(stopped_for="turns"), Verdict.OVER_BUDGET),
}
# Those of one program alone.
OWN: dict[str, dict[str, tuple[Ending, Verdict]]] = {
    "claude": {
        "limit of turns": (Ending(code=1), Verdict.OVER_BUDGET),
        "limit of money": (Ending(code=1), Verdict.OVER_BUDGET),
        "tool deferred": (Ending(), Verdict.NEEDS_YOU),
        "done with a gap": (Ending(has_gap=True), Verdict.DONE),
    },
    "codex": {
        "declined command": (Ending(), Verdict.REFUSED),
        "asks in a tool": (Ending(), Verdict.REFUSED),
        "done with a gap": (Ending(has_gap=True), Verdict.UNKNOWN),
    },
    "gemini": {"limit of turns": (Ending(code=53), Verdict.OVER_BUDGET)},
    "opencode": {"denied, seen in the tool": (Ending(), Verdict.REFUSED)},
}
ERROR_LINES = {
    (
        "codex",
        "denied",
    ): "2026-11-18T22:58:41Z ERROR codex_core::tools::router: error=approval policy is Never; reject"
    " command — you cannot ask for escalated permissions if the approval policy is Never"
}


def lines_of(kind: str, ending: str) -> Lines:
    """Return what a program of this kind prints, line by line."""
    if ending in ("says nothing at all", "fails before its first line"):
        return []
    lines = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[kind](ending)
    if ending in ("no last line", "dies in the middle"):
        return lines[:-1]
    return lines


def as_bytes(lines: Lines) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _claude(ending: str) -> Lines:
    text = TEXTS.get(ending, DONE_TEXT)
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 0, "output_tokens": 1}
    push = {"type": "tool_use", "id": "toolu_0", "name": "Bash", "input": PUSH}
    refusal = {
        "type": "tool_result",
        "tool_use_id": "toolu_0",
        "is_error": True,
        "content": "Permission denied",
    }

    def says(number: int, block: Any) -> dict[str, Any]:
        message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-opus-4-8", "usage": usage}
        return {"type": "assistant", "message": {**message, "content": [block]}, "session_id": SESSION}

    end: dict[str, Any] = {
        **{"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": text},
        **{"session_id": SESSION, "total_cost_usd": 0.011, "terminal_reason": "completed"},
        "usage": {"input_tokens": 2000, "output_tokens": 40},
        "modelUsage": {"claude-opus-4-8": {"inputTokens": 2000, "outputTokens": 40, "costUSD": 0.011}},
        "permission_denials": [],
    }
    changes: dict[str, dict[str, Any]] = {
        "denied": {
            "permission_denials": [{"tool_name": "Bash", "tool_use_id": "toolu_0", "tool_input": PUSH}]
        },
        "limit of turns": {
            **{"subtype": "error_max_turns", "is_error": True, "result": None},
            **{
                "terminal_reason": "max_turns",
                "permission_denials": [{"tool_name": "Bash", "tool_input": PUSH}],
            },
        },
        "limit of money": {
            **{"subtype": "error_max_budget_usd", "is_error": True, "result": None},
            "errors": ["Reached maximum budget ($0.004)"],
        },
        "tool deferred": {
            "terminal_reason": "tool_deferred",
            "deferred_tool_use": {"id": "toolu_0", "name": "Bash", "input": PUSH},
        },
        "reports an error": {"is_error": True, "result": "API Error: Unable to connect"},
        "reports an error and exits with 0": {"terminal_reason": "api_error", "result": "API Error"},
    }
    return [
        {"type": "system", "subtype": "init", "session_id": SESSION, "claude_code_version": "2.1.197"},
        says(1, push),
        {"type": "user", "message": {"role": "user", "content": [refusal]}},
        # The parts of one answer repeat its tokens.
        says(2, {"type": "text", "text": "I look."}),
        says(2, {"type": "text", "text": text}),
        {**end, **changes.get(ending, {})},
    ]


def _codex(ending: str) -> Lines:
    text = TEXTS.get(ending, DONE_TEXT)
    command = {"id": "item_1", "type": "command_execution", "command": "git push origin main"}
    result = {**command, "aggregated_output": "fatal", "exit_code": 1, "status": "failed"}
    if ending == "declined command":
        result |= {"status": "declined"}
    items = [result]
    if ending == "asks in a tool":
        items.append({"id": "item_3", "type": "request_user_input", "status": "completed"})
    usage = {
        "input_tokens": 2000,
        "cached_input_tokens": 500,
        "output_tokens": 40,
        "reasoning_output_tokens": 0,
    }
    end: dict[str, Any] = {"type": "turn.completed", "usage": usage}
    if ending.startswith("reports an error"):
        end = {"type": "turn.failed", "error": {"message": "stream disconnected"}}
    answer = [{"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": text}}]
    return [
        {"type": "thread.started", "thread_id": SESSION},
        {"type": "turn.started"},
        {"type": "item.started", "item": {**command, "status": "in_progress"}},
        *({"type": "item.completed", "item": item} for item in items),
        *(answer if text else []),
        end,
    ]


def _gemini(ending: str) -> Lines:
    text = TEXTS.get(ending, DONE_TEXT)
    is_denied = ending == "denied"
    outcome: dict[str, Any] = {"status": "success", "output": "ok"}
    if is_denied:
        denial = {"type": "policy_violation", "message": "Tool execution denied by policy."}
        outcome = {"status": "error", "error": denial}
    end: dict[str, Any] = {"type": "result", "status": "success"}
    end["stats"] = {"total_tokens": 2040, "input_tokens": 2000, "output_tokens": 40}
    if ending.startswith("reports an error"):
        end |= {"status": "error", "error": {"type": "ApiError", "message": "quota"}}
    if ending == "limit of turns":
        end |= {"status": "error", "error": {"type": "x", "message": "Maximum session turns exceeded"}}
    half = len(text) // 2
    return [
        {"type": "init", "session_id": SESSION, "model": "gemini-2.5-pro"},
        {"type": "message", "role": "user", "content": "go"},
        {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "t1", "parameters": PUSH},
        {"type": "tool_result", "tool_id": "t1", **outcome},
        {"type": "message", "role": "assistant", "content": text[:half], "delta": True},
        {"type": "message", "role": "assistant", "content": text[half:], "delta": True},
        end,
    ]


def _opencode(ending: str) -> Lines:
    text = TEXTS.get(ending, DONE_TEXT)
    state: dict[str, Any] = {"status": "completed", "input": PUSH, "output": "ok"}
    if ending == "denied, seen in the tool":
        state = {"status": "error", "input": PUSH, "error": "The user rejected permission to use this tool."}
    tokens = {"input": 1000, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}

    def event(kind: str, **part: Any) -> dict[str, Any]:
        return {"type": kind, "sessionID": SESSION, "part": part}

    rejected = [{"permission": "bash", "patterns": ["git push origin main"]}] if ending == "denied" else []
    lines = [
        event("step_start"),
        event("tool_use", tool="bash", callID="c1", state=state),
        event("step_finish", reason="tool-calls", cost=0.001, tokens=tokens),
        event("step_start"),
        event("text", text=text),
        event(
            "step_finish", reason="tool-calls" if "last line" in ending else "stop", cost=0.002, tokens=tokens
        ),
    ]
    if ending.startswith("reports an error"):
        error = {"name": "APIError", "data": {"message": "quota"}}
        lines.append({"type": "error", "sessionID": SESSION, "error": error})
    return [*lines, {"type": "done", "sessionID": SESSION, "rejected": rejected}]
