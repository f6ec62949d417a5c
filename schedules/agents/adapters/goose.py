"""The adapter for Goose: `goose run` with a stream of JSON lines."""

import json
from typing import ClassVar

from schedules.agents.adapters.base import Adapter, Event, RunnerOptions, options, quoted_result
from schedules.agents.reports import LONGEST_ANSWER, Report, list_of, mapping_of, money_of, number_of, text_of


class Goose(Adapter):
    program = "goose"
    tested_version = ""
    modes = ("approve", "smart_approve", "auto")
    bypassing = frozenset(("auto",))
    reserved: ClassVar[frozenset[str]] = frozenset(
        ("text", "instructions", "output-format", "max-turns", "resume", "session-id", "quiet", "model")
    )
    reports_money = True

    def check(self, runner: RunnerOptions) -> None:
        if runner.mode == "chat":
            raise ValueError("mode: in the mode chat Goose reports skipped calls as done; choose approve")
        super().check(runner)

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        arguments = ["run", "--quiet", "--output-format", "stream-json", "--instructions", "-"]
        if runner.model:
            arguments.append(f"--model={runner.model}")
        if runner.max_turns:
            arguments += ["--max-turns", str(runner.max_turns)]
        if resume:
            arguments += ["--resume", "--session-id", resume]
        return arguments + options(runner.parameters)

    def environment(self, runner: RunnerOptions, folder: str) -> dict[str, str]:
        mode = {"GOOSE_MODE": self.mode_of(runner)}
        # So that it finds the list of tools in the folder of the run.
        return {**mode, "GOOSE_PATH_ROOT": f"{folder}/goose"} if runner.tools else mode

    def files(self, runner: RunnerOptions) -> dict[str, str]:
        if not runner.tools:
            return {}
        # JSON is valid YAML.
        allowed = {"user": {"always_allow": list(runner.tools), "ask_before": [], "never_allow": []}}
        return {"goose/config/permission.yaml": json.dumps(allowed)}

    def read(self, event: Event, report: Report) -> str:
        match event.get("type"):
            case "message":
                return self._read_message(mapping_of(event.get("message")), report)
            case "error":
                report.problem = text_of(event.get("error"))[:1000] or "it reported an error"
            case "complete":
                report.has_ended = True
                report.raise_tokens(
                    number_of(event.get("input_tokens")) or number_of(event.get("total_tokens")),
                    number_of(event.get("output_tokens")),
                )
                report.cost = money_of(event.get("cost"))
        return ""

    def _read_message(self, message: Event, report: Report) -> str:
        shown = []
        is_assistant = message.get("role") == "assistant"
        key = text_of(message.get("id"))
        if is_assistant and report.begin_answer(key):
            report.is_in_text = False
        for part in map(mapping_of, list_of(message.get("content"))):
            if part.get("type") == "text" and is_assistant:
                text = text_of(part.get("text"))
                report.answer = ((report.answer if report.is_in_text else "") + text)[:LONGEST_ANSWER]
                report.is_in_text = True
                shown.append(text if key else f"{text}\n")
            elif part.get("type") == "toolRequest":
                call = mapping_of(mapping_of(part.get("toolCall")).get("value"))
                use = report.begin_tool(text_of(part.get("id")), call.get("name"), call.get("arguments"))
                shown.append(f"\n→ {use.label}\n")
            elif part.get("type") == "toolResponse":
                result = mapping_of(part.get("toolResult"))
                is_error = result.get("status") == "error"
                report.end_tool(text_of(part.get("id")), "error" if is_error else "ok")
                shown.append(quoted_result(json.dumps(result.get("value", ""))[:2000]) + "\n")
        return "".join(shown)

    def finish(self, report: Report) -> None:
        """Note a refused call: in the mode approve, the first call that is not listed ends Goose without a message."""
        if not report.has_ended and not report.problem:
            for use in report.open_tools[-1:]:
                report.refuse(use)
