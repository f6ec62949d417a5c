"""A scripted program that asks its hook before each call as Claude Code does, and goes on with a session."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.agents.streams import SESSION

_SCRIPT = """
import json, os, subprocess, sys

arguments = sys.argv[1:]
prompt = sys.stdin.read()
place, calls, session = {place!r}, {calls!r}, {session!r}


def value_of(option):
    return arguments[arguments.index(option) + 1] if option in arguments else ""


def note(name, text):
    with open(os.path.join(place, name), "a") as file:
        file.write(text + chr(10))


def ended(**values):
    usage = {{"input_tokens": 100, "output_tokens": 10}}
    end = {{"type": "result", "subtype": "success", "is_error": False, "result": "", "session_id": session}}
    end |= {{"usage": usage, "total_cost_usd": 0.01 * (1 + len(done)), "permission_denials": denials}}
    print(json.dumps(end | values))
    sys.exit()


note("starts", json.dumps([arguments, prompt]))
resumed = value_of("--resume")
if resumed and resumed != session:
    sys.exit("No conversation found")
listed = [each.split("=", 1)[1].split(",") for each in arguments if each.startswith("--allowedTools=")]
allowed = sum(listed, [])
ledger = os.path.join(place, "session")
done = open(ledger).read().split() if resumed and os.path.exists(ledger) else []
denials = []
print(json.dumps({{"type": "system", "subtype": "init", "session_id": session, "claude_code_version": "2.1.327"}}))
for call in calls:
    if call["id"] in done:
        continue
    block = {{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["input"]}}
    said = [{{"type": "text", "text": call.get("why", "I need this.")}}, block]
    message = {{"id": "msg_" + call["id"], "role": "assistant", "model": "m", "content": said}}
    print(json.dumps({{"type": "assistant", "message": message}}), flush=True)
    decision = ""
    if value_of("--settings"):
        with open(value_of("--settings")) as file:
            command = json.load(file)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        asked = {{"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}}
        asked["session_id"] = session
        answer = subprocess.run(command, shell=True, input=json.dumps(asked), capture_output=True, text=True)
        if answer.stdout:
            decision = json.loads(answer.stdout)["hookSpecificOutput"]["permissionDecision"]
    if decision == "defer":
        with open(ledger, "w") as file:
            file.write(" ".join(done))
        ended(terminal_reason="tool_deferred", deferred_tool_use={{n: call[n] for n in ("id", "name", "input")}})
    rule = "Bash(" + str(call["input"].get("command")) + ")"
    if decision == "allow" or rule in allowed or call["name"] in allowed:
        note("made", call["id"])
        {then}
        done.append(call["id"])
    else:
        denials.append({{"tool_name": call["name"], "tool_use_id": call["id"], "tool_input": call["input"]}})
ended(result="All done.", terminal_reason="completed")
"""

PUSH: dict[str, Any] = {
    "id": "toolu_1",
    "name": "Bash",
    "input": {"command": "git push origin main", "description": "push"},
}


class AskingProgram:
    """The program in a folder, with what it was started with and the calls that it has made."""

    def __init__(self, folder: Path, calls: Sequence[dict[str, Any]] = (PUSH,), then: str = "pass") -> None:
        self.folder = folder
        self.path = folder / "agent"
        script = _SCRIPT.format(place=str(folder), calls=list(calls), session=SESSION, then=then)
        self.path.write_text(f"#!{sys.executable} -IS\n{script}")
        self.path.chmod(0o700)

    def runner(self, more: str = "may_ask = true\n") -> str:
        """Return the table of a runner that starts it."""
        return (
            f'[one]\ndescription = "x"\nkind = "claude"\nprogram = "{self.path}"\nallow = ["everyone", "agents"]\n'
            f'directory = "{self.folder}"\n{more}[one.environment]\nHOME = "{self.folder}"\n'
        )

    @property
    def made(self) -> list[str]:
        """The ids of the calls that it has made, in order."""
        return self._lines("made")

    @property
    def starts(self) -> list[tuple[list[str], str]]:
        """The arguments and the prompt of each start."""
        return [tuple(json.loads(line)) for line in self._lines("starts")]  # type: ignore[misc]

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []
