"""A scripted agent program that counts what it uses, apart from Cronty: sessions that are resumed, and calls that ask."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

# What a session costs: a millionth of a dollar for a token that is read, and five for one that is written.
_SCRIPT = '''
import json, os, random, subprocess, sys, time

arguments, prompt = sys.argv[1:], sys.stdin.read()
place, is_cumulative = os.environ["HOME"], os.environ["TOTALS"] == "cumulative"
dice = random.Random()


def value_of(option):
    return arguments[arguments.index(option) + 1] if option in arguments else ""


def note(*words):
    line = (" ".join(map(str, words)) + chr(10)).encode()
    log = os.open(os.path.join(place, "count"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, line)
    os.close(log)


def store():
    with open(file + ".new", "w") as new:
        json.dump(session, new)
    os.replace(file + ".new", file)


def use(said):
    """One answer of the model."""
    read, written = dice.randint(100, 9000), dice.randint(1, 3000)
    note("used", name, read, written)
    for counts in (own, session["used"]):
        counts[0] += read
        counts[1] += written
    store()
    message = {"id": "msg_%d" % time.monotonic_ns(), "role": "assistant", "model": "m", "content": said}
    message["usage"] = {"input_tokens": read, "output_tokens": written}
    print(json.dumps({"type": "assistant", "message": message}), flush=True)
    time.sleep(dice.choice(PAUSES))


def end(**values):
    read, written = session["used"] if is_cumulative else own
    line = {"type": "result", "subtype": "success", "is_error": False, "session_id": name, "result": ""}
    line["usage"] = dict(zip(("input_tokens", "output_tokens"), own))
    line["modelUsage"] = {"m": dict(zip(("inputTokens", "outputTokens"), (read, written)))}
    line["total_cost_usd"] = (read + 5 * written) / 1e6
    print(json.dumps({**line, "permission_denials": [], **values}), flush=True)
    sys.exit()


def decision_about(call):
    with open(value_of("--settings")) as rules:
        command = json.load(rules)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    asked = {"tool_name": "Bash", "tool_input": call["input"], "tool_use_id": call["id"], "session_id": name}
    done = subprocess.run(command, shell=True, input=json.dumps(asked), capture_output=True, text=True)
    return json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"]


name = value_of("--resume") or "%x-%x" % (time.time_ns(), os.getpid())
file = os.path.join(place, name + ".json")
if value_of("--resume"):
    with open(file) as stored:
        session = json.load(stored)
else:
    session = {"used": [0, 0], "left": dice.randint(1, 2) if value_of("--settings") else 0}
own = [0, 0]
print(json.dumps({"type": "system", "subtype": "init", "session_id": name, "claude_code_version": "2.1.327"}))
use([{"type": "text", "text": "I look."}])
while session["left"]:
    number = session["left"]
    call = {"id": "toolu_%d" % number, "name": "Bash", "input": {"command": "push %d" % number}}
    if decision_about(call) == "defer":
        end(terminal_reason="tool_deferred", deferred_tool_use=call)
    note("made", name, call["id"])
    session["left"] -= 1
    use([{"type": "text", "text": "I have done it."}])
use([{"type": "text", "text": "All done."}])
end(result="All done.", terminal_reason="completed")
'''


class Used(NamedTuple):
    """Tokens and money."""

    read: int = 0
    written: int = 0

    @property
    def tokens(self) -> int:
        return self.read + self.written

    @property
    def cost(self) -> Decimal:
        return Decimal(self.read + 5 * self.written) / 1_000_000


class MeteredProgram:
    """The program in a folder, with runners that start it, and what it has counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = folder / "agent"
        # Most answers come at once; during some, a worker can be killed after others were stored.
        script = _SCRIPT.replace("PAUSES", "[0, 0, 0, 1.5]")
        self._program.write_text(f"#!{sys.executable} -IS\n{script}")
        self._program.chmod(0o700)
        self.runners_file = folder / "runners.toml"
        self.runners_file.write_text(self._runners())
        self.runners_file.chmod(0o600)

    def _runners(self) -> str:
        """Return tables of runners whose programs ask or go on with a session, and count it in both ways."""
        return "\n".join(
            f'[{totals}-{manner}]\ndescription = "x"\nkind = "claude"\nprogram = "{self._program}"\n'
            f'allow = ["everyone"]\ndirectory = "{self._folder}"\nat_once = 100\n{more}'
            f'[{totals}-{manner}.environment]\nHOME = "{self._folder}"\nTOTALS = "{totals}"\n'
            for totals in ("cumulative", "alone")
            for manner, more in (("asking", "may_ask = true\n"), ("continuing", 'session = "continue"\n'))
        )

    @property
    def used(self) -> dict[str, Used]:
        """What each session has used."""
        used: dict[str, Used] = defaultdict(Used)
        for name, read, written in self._noted("used"):
            used[name] = Used(used[name].read + int(read), used[name].written + int(written))
        return used

    @property
    def made(self) -> list[tuple[str, ...]]:
        """The session and the call of each call that was made."""
        return list(self._noted("made"))

    def _noted(self, what: str) -> Iterator[tuple[str, ...]]:
        for line in (self._folder / "count").read_text().splitlines():
            kind, *words = line.split()
            if kind == what:
                yield tuple(words)
