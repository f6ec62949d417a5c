"""A scripted program that asks questions in words, and goes on with its session, or from the beginning, with the answer."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.agents.streams import SESSION

_SCRIPT = """
import json, os, sys

prompt = sys.stdin.read()
with open(os.path.join({place!r}, "starts"), "a") as file:
    file.write(json.dumps([sys.argv[1:], prompt]) + chr(10))
count = len(open(os.path.join({place!r}, "starts")).readlines())
{then}
said = ([*{said!r}, "All done."])[min(count, len({said!r}) + 1) - 1]
for line in {lines!r}:
    print(json.dumps(line) if isinstance(line, dict) else line.replace("ANSWER", {written}).replace("STARTS", str(count)))
"""
_CLAUDE = [
    {"type": "system", "subtype": "init", "session_id": SESSION, "claude_code_version": "2.1.327"},
    f'{{"type": "result", "subtype": "success", "is_error": false, "session_id": "{SESSION}", "result": "ANSWER",'
    ' "usage": {"input_tokens": 100, "output_tokens": 10}, "total_cost_usd": 0.01}',
]
_CODEX = [
    {"type": "thread.started", "thread_id": SESSION},
    {"type": "turn.started"},
    '{"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "ANSWER"}}',
    # Of the whole session, as Codex counts.
    '{"type": "turn.completed", "usage": {"input_tokens": STARTS00, "output_tokens": STARTS0}}',
]
_LINES: dict[str, list[Any]] = {"claude": _CLAUDE, "codex": _CODEX, "command": ["ANSWER"]}


class QuestioningProgram:
    """The program in a folder, with what it was started with."""

    def __init__(
        self, folder: Path, kind: str, said: Sequence[str], then: str = "pass", more: str = "may_ask = true\n"
    ) -> None:
        self.folder, self.kind, self._more = folder, kind, more
        self.path = folder / "agent"
        written = "said" if kind == "command" else "json.dumps(said)[1:-1]"
        script = _SCRIPT.format(
            place=str(folder), said=list(said), lines=_LINES[kind], then=then, written=written
        )
        self.path.write_text(f"#!{sys.executable} -IS\n{script}")
        self.path.chmod(0o700)

    @property
    def runner(self) -> str:
        """The table of a runner that starts it."""
        place = f'directory = "{self.folder}"\n' if self.kind != "command" else ""
        home = f'[one.environment]\nHOME = "{self.folder}"\n' if self.kind != "command" else ""
        return (
            f'[one]\ndescription = "x"\nkind = "{self.kind}"\nprogram = "{self.path}"\n'
            f'allow = ["everyone", "agents"]\n{place}{self._more}{home}'
        )

    @property
    def starts(self) -> list[tuple[list[str], str]]:
        """The arguments and the prompt of each start."""
        file = self.folder / "starts"
        return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
