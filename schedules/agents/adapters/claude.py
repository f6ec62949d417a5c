"""The adapter for Claude Code: `claude -p` with a stream of JSON lines."""

from typing import Any, ClassVar

from schedules.agents.adapters.base import Adapter, Event, RunnerOptions, options, quoted_result
from schedules.agents.reports import (
    LONGEST_ANSWER,
    Call,
    Report,
    ToolUse,
    list_of,
    mapping_of,
    money_of,
    number_of,
    summarize_input,
    text_of,
)

_CAPS = {
    "error_max_turns": "it reached its limit of turns",
    "error_max_budget_usd": "it reached its limit of money",
    "max_turns": "it reached its limit of turns",
    "budget_exhausted": "it reached its limit of money",
}

# In all other modes, the program decides about calls without running the hook.
ASKING_MODES = ("dontAsk", "acceptEdits")
_WITHOUT_HOOKS = ("bare", "safe-mode")


class Claude(Adapter):
    program = "claude"
    tested_version = "2.1"
    modes = ("dontAsk", "acceptEdits", "auto", "manual", "plan", "default", "bypassPermissions")
    bypassing = frozenset(
        ("bypassPermissions", "dangerously-skip-permissions", "allow-dangerously-skip-permissions")
    )
    reserved: ClassVar[frozenset[str]] = frozenset(
        [
            "print",
            "output-format",
            "input-format",
            "verbose",
            "permission-mode",
            "model",
            "max-turns",
            "max-budget-usd",
            "resume",
            "continue",
            "allowedTools",
            "allowed-tools",
            "no-session-persistence",
        ]
    )
    reports_money = True
    can_defer = True
    tells_all_at_end = True

    def check(self, runner: RunnerOptions) -> None:
        super().check(runner)
        if not runner.may_ask:
            return
        if self.mode_of(runner) not in ASKING_MODES:
            raise ValueError(f"may_ask: a runner that may ask works in the mode {' or '.join(ASKING_MODES)}")
        if unwanted := sorted({"settings", *_WITHOUT_HOOKS} & set(runner.parameters)):
            raise ValueError(f"parameters: {unwanted[0]} does not fit may_ask, which needs a hook of its own")

    def asking_arguments(self, settings: str) -> list[str]:
        return ["--settings", settings]

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        arguments = ["-p", "--output-format", "stream-json", "--verbose"]
        arguments += ["--permission-mode", self.mode_of(runner)]
        if runner.model:
            arguments.append(f"--model={runner.model}")
        if runner.tools:
            arguments.append(f"--allowedTools={','.join(runner.tools)}")
        if runner.max_turns:
            arguments += ["--max-turns", str(runner.max_turns)]
        if runner.max_money:
            arguments += ["--max-budget-usd", f"{runner.max_money:g}"]
        if resume:
            arguments += ["--resume", resume]
        elif runner.session == "new" and not runner.may_ask:
            arguments.append("--no-session-persistence")
        return arguments + options(runner.parameters)

    def environment(self, runner: RunnerOptions) -> dict[str, str]:
        return {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def read(self, event: Event, report: Report) -> str:
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                report.session_id = text_of(event.get("session_id"))
                report.version = text_of(event.get("claude_code_version"))
                return f"claude {report.version}, {text_of(event.get('model'))}\n"
            case "assistant":
                return self._read_answer(mapping_of(event.get("message")), report)
            case "user":
                return self._read_results(mapping_of(event.get("message")), report)
            case "result":
                self._read_end(event, report)
        return ""

    def _read_answer(self, message: Event, report: Report) -> str:
        usage = mapping_of(message.get("usage"))
        if message.get("model") != "<synthetic>":
            key = text_of(message.get("id"))[:200]
            report.begin_answer(key)
            report.add_usage(key, _read_tokens(usage), number_of(usage.get("output_tokens")))
        shown = []
        for block in map(mapping_of, list_of(message.get("content"))):
            if block.get("type") == "text":
                report.last_text = report.answer = text_of(block.get("text"))[:LONGEST_ANSWER]
                shown.append(f"{report.answer}\n")
            elif block.get("type") == "tool_use":
                use = report.begin_tool(text_of(block.get("id")), block.get("name"), block.get("input"))
                shown.append(f"→ {use.label}\n")
        return "".join(shown)

    def _read_results(self, message: Event, report: Report) -> str:
        shown = []
        for block in map(mapping_of, list_of(message.get("content"))):
            if block.get("type") == "tool_result":
                is_error = block.get("is_error") is True
                report.end_tool(text_of(block.get("tool_use_id")), "error" if is_error else "ok")
                shown.append(quoted_result(_as_text(block.get("content"))) + "\n")
        return "".join(shown)

    def _read_end(self, event: Event, report: Report) -> None:
        report.has_ended = True
        report.session_id = text_of(event.get("session_id")) or report.session_id
        subtype, reason = text_of(event.get("subtype")), text_of(event.get("terminal_reason"))
        report.cap = _CAPS.get(subtype) or _CAPS.get(reason) or ""
        for denial in map(mapping_of, list_of(event.get("permission_denials"))):
            report.deny(denial.get("tool_name"), denial.get("tool_input"))
        if deferred := mapping_of(event.get("deferred_tool_use")):
            report.deferred = ToolUse(
                text_of(deferred.get("name"))[:100], summarize_input(deferred.get("input"))
            )
            report.deferred_call = Call(
                text_of(deferred.get("id")), text_of(deferred.get("name")), deferred.get("input")
            )
        elif reason == "tool_deferred":
            report.deferred = ToolUse("a tool", "")
        is_other_error = event.get("is_error") is True or subtype != "success" or reason == "api_error"
        if is_other_error and not report.cap:
            errors = [text_of(error) for error in list_of(event.get("errors"))]
            message = text_of(event.get("result")) or "; ".join(filter(None, errors)) or subtype
            report.problem = message[:1000] or "it reported an error"
        report.answer = text_of(event.get("result"))[:LONGEST_ANSWER]
        self._read_totals(event, report)

    def _read_totals(self, event: Event, report: Report) -> None:
        report.cost = money_of(event.get("total_cost_usd"))
        usage = mapping_of(event.get("usage"))
        report.raise_tokens(_read_tokens(usage), number_of(usage.get("output_tokens")))
        models = [mapping_of(each) for each in mapping_of(event.get("modelUsage")).values()]
        if models:
            names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
            read = sum(number_of(each.get(name)) for each in models for name in names)
            written = sum(number_of(each.get("outputTokens")) for each in models)
            report.session_usage = read, written


def _read_tokens(usage: Event) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(number_of(usage.get(name)) for name in names)


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(text_of(mapping_of(block).get("text")) for block in list_of(content))
