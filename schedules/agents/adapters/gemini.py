"""The adapter for Gemini CLI: `gemini` with a stream of JSON lines."""

import re
from typing import ClassVar

from schedules.agents.adapters.base import Adapter, Event, RunnerOptions, options, quoted_result
from schedules.agents.reports import LONGEST_ANSWER, Report, mapping_of, number_of, text_of

_REFUSED = re.compile(r"den(y|ied)|not allowed|polic(y|ies)|permission|approval|confirmation", re.IGNORECASE)


class Gemini(Adapter):
    program = "gemini"
    tested_version = ""
    modes = ("default", "auto_edit", "plan", "yolo")
    bypassing = frozenset(("yolo",))
    reserved: ClassVar[frozenset[str]] = frozenset(
        ("model", "prompt", "output-format", "approval-mode", "allowed-tools", "resume", "prompt-interactive")
    )

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        arguments = ["--output-format", "stream-json", "--approval-mode", self.mode_of(runner)]
        if runner.model:
            arguments.append(f"--model={runner.model}")
        if runner.tools:
            arguments.append(f"--allowed-tools={','.join(runner.tools)}")
        if resume:
            arguments += ["--resume", resume]
        return arguments + options(runner.parameters)

    def read(self, event: Event, report: Report) -> str:
        match event.get("type"):
            case "init":
                report.session_id = text_of(event.get("session_id"))
                report.turns = 1
                return f"gemini, {text_of(event.get('model'))}\n"
            case "message" if event.get("role") == "assistant":
                text = text_of(event.get("content"))
                # Texts come in pieces; a call of a tool between two pieces begins a new text.
                is_same = event.get("delta") is True and report.is_in_text
                report.answer = ((report.answer if is_same else "") + text)[:LONGEST_ANSWER]
                report.is_in_text = True
                return text
            case "tool_use":
                report.is_in_text = False
                use = report.begin_tool(
                    text_of(event.get("tool_id")), event.get("tool_name"), event.get("parameters")
                )
                return f"\n→ {use.label}\n"
            case "tool_result":
                # The model is asked again after the results.
                report.turns += not report.open_keys - {text_of(event.get("tool_id"))}
                return self._read_result(event, report)
            case "error":
                return f"\nError: {text_of(event.get('message'))[:500]}\n"
            case "result":
                report.has_ended = True
                stats = mapping_of(event.get("stats"))
                report.raise_tokens(
                    number_of(stats.get("input_tokens")), number_of(stats.get("output_tokens"))
                )
                if event.get("status") != "success":
                    error = mapping_of(event.get("error"))
                    message = text_of(error.get("message"))[:1000] or "it reported an error"
                    lower = message.lower()
                    if "turn" in lower and ("max" in lower or "limit" in lower):
                        report.cap = "it reached its limit of turns"
                    else:
                        report.problem = message
        return ""

    def _read_result(self, event: Event, report: Report) -> str:
        is_error = event.get("status") == "error"
        use = report.end_tool(text_of(event.get("tool_id")), "error" if is_error else "ok")
        error = mapping_of(event.get("error"))
        output = text_of(event.get("output")) or text_of(error.get("message"))
        if is_error and use and _REFUSED.search(f"{text_of(error.get('type'))} {output}"):
            report.refuse(use)
        shown = quoted_result(output)
        return f"{shown}\n" if shown else ""
