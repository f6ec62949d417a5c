"""The adapter for opencode: `opencode run --format json`."""

import json
from typing import ClassVar

from schedules.agents.adapters.base import Adapter, Event, RunnerOptions, options, quoted_result
from schedules.agents.reports import (
    LONGEST_ANSWER,
    Report,
    list_of,
    mapping_of,
    money_of,
    number_of,
    text_of,
)


class Opencode(Adapter):
    program = "opencode"
    tested_version = ""
    modes = ("ask", "auto")
    bypassing = frozenset(("auto", "dangerously-skip-permissions"))
    reserved: ClassVar[frozenset[str]] = frozenset(
        ("format", "model", "session", "continue", "fork", "share", "attach", "command")
    )
    reports_money = True

    def arguments(self, runner: RunnerOptions, resume: str) -> list[str]:
        arguments = ["run", "--format", "json"]
        if self.mode_of(runner) == "auto":
            arguments.append("--auto")
        if runner.model:
            arguments.append(f"--model={runner.model}")
        if resume:
            arguments += ["--session", resume]
        return arguments + options(runner.parameters)

    def environment(self, runner: RunnerOptions) -> dict[str, str]:
        if not runner.tools:
            return {}
        permission = {"*": "ask", **dict.fromkeys(runner.tools, "allow")}
        return {"OPENCODE_CONFIG_CONTENT": json.dumps({"permission": permission})}

    def read(self, event: Event, report: Report) -> str:
        report.session_id = text_of(event.get("sessionID")) or report.session_id
        part = mapping_of(event.get("part"))
        match event.get("type"):
            case "text":
                report.answer = text_of(part.get("text"))[:LONGEST_ANSWER]
                return f"{report.answer}\n"
            case "tool_use":
                return self._read_tool(part, report)
            case "step_start":
                report.turns += 1
            case "step_finish":
                self._read_step(part, report)
            case "error":
                error = mapping_of(event.get("error"))
                message = text_of(mapping_of(error.get("data")).get("message")) or text_of(error.get("name"))
                report.problem = message[:1000] or "it reported an error"
            case "done":
                report.has_ended = True
                for rejected in map(mapping_of, list_of(event.get("rejected"))):
                    report.deny(
                        rejected.get("permission") or rejected.get("tool") or rejected.get("type"),
                        rejected.get("patterns") or rejected.get("pattern") or rejected.get("input"),
                    )
        return ""

    def _read_tool(self, part: Event, report: Report) -> str:
        state = mapping_of(part.get("state"))
        key = text_of(part.get("callID"))
        use = report.begin_tool(key, part.get("tool"), state.get("input"))
        error = text_of(state.get("error"))
        report.end_tool(key, "error" if state.get("status") == "error" else "ok")
        if "rejected permission" in error or ("permission" in error.lower() and "reject" in error.lower()):
            report.refuse(use)
        shown = quoted_result(error or text_of(state.get("output")))
        return f"→ {use.label}\n" + (f"{shown}\n" if shown else "")

    def _read_step(self, part: Event, report: Report) -> None:
        tokens = mapping_of(part.get("tokens"))
        cache = mapping_of(tokens.get("cache"))
        read = sum(number_of(value) for value in (tokens.get("input"), cache.get("read"), cache.get("write")))
        written = number_of(tokens.get("output")) + number_of(tokens.get("reasoning"))
        report.add_usage(f"step {report.turns}", read, written)
        if (cost := money_of(part.get("cost"))) is not None:
            report.cost = (report.cost or 0.0) + cost
        if part.get("reason") == "stop":
            # Older versions print no line `done` after this one.
            report.has_ended = True
