"""The adapter for Codex: `codex exec --json`."""

import re
from typing import ClassVar

from schedules.agents.adapters.base import Adapter, Event, RunnerOptions, quoted_result
from schedules.agents.reports import LONGEST_ANSWER, Report, ToolUse, mapping_of, number_of, text_of

# The only trace of a command that was refused because nobody can be asked; standard output does not mention it.
_REFUSED = re.compile(r"\b(?:reject|rejected|denied|not allowed|approval policy)\b")
_TOOLS = {
    "command_execution": "command",
    "mcp_tool_call": "tool",
    "web_search": "web_search",
    "file_change": "file_change",
    "collab_tool_call": "agent",
    "request_user_input": "request_user_input",
}
_DENIED = ("declined", "rejected", "denied")


class Codex(Adapter):
    program = "codex"
    tested_version = "0.169"
    modes = ("read-only", "workspace-write", "danger-full-access")
    bypassing = frozenset(
        ("danger-full-access", "sandbox_mode=danger-full-access", "dangerously-bypass-approvals-and-sandbox")
    )
    reserved: ClassVar[frozenset[str]] = frozenset(("model", "json", "sandbox", "approval_policy"))
    has_tools = False

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        arguments = ["exec", "--json", "--skip-git-repo-check", "--sandbox", self.mode_of(runner)]
        if runner.session == "new" and not runner.may_ask:
            arguments.append("--ephemeral")
        if runner.model:
            arguments.append(f"--model={runner.model}")
        for name, value in runner.parameters.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments.append(f"--config={name}={text}")
        return [*arguments, "resume", resume, "-"] if resume else [*arguments, "-"]

    def environment(self, runner: RunnerOptions) -> dict[str, str]:
        # Refused commands appear only in the error log.
        return {"RUST_LOG": "error", "NO_COLOR": "1"}

    def read(self, event: Event, report: Report) -> str:
        match event.get("type"):
            case "thread.started":
                report.session_id = text_of(event.get("thread_id"))
            case "turn.started":
                report.turns += 1
            case "turn.completed":
                report.has_ended = True
                usage = mapping_of(event.get("usage"))
                # Cached tokens are included in input_tokens; both numbers are totals of the whole session.
                read, written = number_of(usage.get("input_tokens")), number_of(usage.get("output_tokens"))
                before_in, before_out = report.earlier_usage
                if read >= before_in and written >= before_out:
                    read, written = read - before_in, written - before_out
                report.raise_tokens(read, written)
            case "turn.failed":
                report.has_ended = True
                error = mapping_of(event.get("error"))
                report.problem = text_of(error.get("message"))[:1000] or "the turn failed"
            case "error":
                # Not a problem yet: it may try again until the turn ends.
                return f"Error: {text_of(event.get('message'))[:500]}\n"
            case "item.started":
                self._begin(mapping_of(event.get("item")), report)
            case "item.completed":
                return self._complete(mapping_of(event.get("item")), report)
        return ""

    def read_error_line(self, line: str, report: Report) -> None:
        why = line.partition("error=")[2]
        if "codex_core" in line and _REFUSED.search(why):
            report.refuse(ToolUse("command", why[:300]))

    def _begin(self, item: Event, report: Report) -> None:
        if kind := _TOOLS.get(text_of(item.get("type"))):
            report.begin_tool(text_of(item.get("id")), self._name(item, kind), self._input(item))

    def _complete(self, item: Event, report: Report) -> str:
        kind = text_of(item.get("type"))
        if kind == "agent_message":
            report.answer = text_of(item.get("text"))[:LONGEST_ANSWER]
            return f"{report.answer}\n"
        if kind == "error":
            return f"Note: {text_of(item.get('message'))[:500]}\n"
        if (tool := _TOOLS.get(kind)) is None:
            return ""
        key, name, arguments = text_of(item.get("id")), self._name(item, tool), self._input(item)
        status = text_of(item.get("status"))
        if key not in report.open_keys:
            report.begin_tool(key, name, arguments)
        outcome = "ok" if status in ("completed", "") and not item.get("exit_code") else "error"
        use = report.end_tool(key, outcome)
        if status in _DENIED or kind == "request_user_input":
            report.deny(name, arguments)
        output = quoted_result(text_of(item.get("aggregated_output")))
        return f"→ {use.label if use else name}\n" + (f"{output}\n" if output else "")

    def _name(self, item: Event, kind: str) -> str:
        return text_of(item.get("tool")) or kind

    def _input(self, item: Event) -> object:
        return item.get("command") or item.get("arguments") or item.get("query") or item.get("changes") or ""
