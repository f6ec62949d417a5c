"""Agent programs from npm, each in a home folder of its own, with a scripted model instead of a real one."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from tests.mcp.processes import ROOT
from tests.programs.models import FINAL_TEXT

BIN = ROOT / ".cache" / "node_modules" / ".bin"
PROMPT = "List my jobs."
# A program starts in seconds; this only ends one that hangs.
PATIENCE = 240


@dataclass
class Home:
    """The home folder of a program, and the variables that it gets."""

    folder: Path
    model: str
    """The address of the scripted model."""
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, command: str | Sequence[str]) -> str:
        """Run a command that must succeed; return what it printed."""
        done = subprocess.run(
            command if isinstance(command, str) else list(command),
            shell=isinstance(command, str),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def end_processes(self) -> None:
        """End what a program has left running in the background."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.folder):
                    process.kill()

    def merge_json(self, name: str, values: Mapping[str, object]) -> None:
        """Add values to a JSON file of the program."""
        file = self._file(name)
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | dict(values)))

    def merge_yaml(self, name: str, text: str) -> None:
        file = self._file(name)
        known = yaml.safe_load(file.read_text()) if file.exists() else {}
        file.write_text(yaml.safe_dump(known | yaml.safe_load(text)))

    def append(self, name: str, text: str) -> None:
        with self._file(name).open("a") as file:
            file.write(text)

    def _file(self, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _environment(self) -> dict[str, str]:
        basic = {"HOME": str(self.folder), "PATH": f"{BIN}:{os.environ['PATH']}", "TERM": "dumb", "CI": "1"}
        return basic | {"NO_COLOR": "1"} | self.variables


@dataclass(frozen=True)
class Program:
    """How to point a program at the scripted model, connect it to a server, and give it a prompt."""

    binary: str
    use_model: Callable[[Home], None]
    connect: Callable[[Home, str], None]
    """Follow the text of the page Connect."""
    connect_locally: Callable[[Home, Sequence[str]], None]
    """Let the program start the server itself, by this command line."""
    prompt: Sequence[str]
    shows_instructions: bool = True
    reports_errors_itself: bool = False
    """Whether the program checks arguments against the schema before it calls the tool."""

    @property
    def is_installed(self) -> bool:
        return shutil.which(self.binary, path=str(BIN)) is not None

    def work(self, home: Home) -> None:
        assert FINAL_TEXT in home.run([part.replace("MODEL", home.model) for part in self.prompt])


def run_in_terminal(home: Home, text: str) -> None:
    """Run the lines of a snippet, and keep the variables that it exports."""
    for line in text.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            home.variables[name] = value
        else:
            home.run(line)


def _claude_model(home: Home) -> None:
    home.variables |= {
        **{"ANTHROPIC_BASE_URL": home.model, "ANTHROPIC_API_KEY": "x", "ENABLE_TOOL_SEARCH": "false"},
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def _codex_model(home: Home) -> None:
    # In front of the sections of servers.
    home.append(
        ".codex/config.toml",
        'model_provider = "scripted"\nmodel = "gpt-5"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{home.model}/v1"\nwire_api = "responses"\nenv_key = "MODEL_KEY"\n',
    )
    home.variables["MODEL_KEY"] = "x"


def _gemini_model(home: Home) -> None:
    home.merge_json(".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    home.variables |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": home.model}


OPENCODE = ".config/opencode/opencode.json"


def _opencode_model(home: Home) -> None:
    options = {"baseURL": f"{home.model}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options}
    models = {"models": {"m": {"name": "m"}}}
    home.merge_json(
        OPENCODE,
        {"provider": {"scripted": provider | models}, "model": "scripted/m", "autoupdate": False},
    )


CONTINUE = ".continue/config.yaml"


def _continue_model(home: Home) -> None:
    model = {
        "name": "m",
        "provider": "openai",
        "model": "gpt-4o",
        "apiBase": f"{home.model}/v1",
        "apiKey": "x",
    }
    model |= {"capabilities": ["tool_use"], "roles": ["chat"]}
    head = {"name": "scripted", "version": "1.0.0", "schema": "v1", "models": [model]}
    home.merge_yaml(CONTINUE, yaml.safe_dump(head))


def _cline_model(home: Home) -> None:
    home.run(["cline", "auth", "-p", "openai-compatible", "-k", "x", "-m", "m", "-b", f"{home.model}/v1"])


def _no_model(home: Home) -> None:
    """The prompt's own options name it."""


PROGRAMS = {
    "code": Program(
        "claude",
        _claude_model,
        run_in_terminal,
        lambda home, line: run_in_terminal(home, f"claude mcp add --scope user cronty -- {shlex.join(line)}"),
        ["claude", "-p", PROMPT, "--output-format", "json", "--allowedTools", "mcp__cronty"],
    ),
    "codex": Program(
        "codex",
        _codex_model,
        run_in_terminal,
        lambda home, line: run_in_terminal(home, f"codex mcp add cronty -- {shlex.join(line)}"),
        ["codex", "exec", "--json", "--skip-git-repo-check", "-s", "read-only", PROMPT],
    ),
    "gemini": Program(
        "gemini",
        _gemini_model,
        run_in_terminal,
        lambda home, line: run_in_terminal(
            home, f"gemini mcp add --scope user --trust cronty {shlex.join(line)}"
        ),
        ["gemini", "-m", "gemini-2.5-pro", "-p", PROMPT, "-o", "json", "--skip-trust"],
        reports_errors_itself=True,
    ),
    "opencode": Program(
        "opencode",
        _opencode_model,
        lambda home, text: home.merge_json(OPENCODE, json.loads(text)),
        lambda home, line: home.merge_json(
            OPENCODE, {"mcp": {"cronty": {"type": "local", "command": list(line)}}}
        ),
        ["opencode", "run", "--format", "json", PROMPT],
    ),
    "qwen": Program(
        "qwen",
        _no_model,
        run_in_terminal,
        lambda home, line: run_in_terminal(home, f"qwen mcp add --scope user cronty {shlex.join(line)}"),
        [
            "qwen",
            PROMPT,
            "--yolo",
            "-o",
            "json",
            "--auth-type",
            "openai",
            "--openai-api-key",
            "x",
            "--openai-base-url",
            "MODEL/v1",
            "-m",
            "m",
        ],
        shows_instructions=False,
        reports_errors_itself=True,
    ),
    "continue": Program(
        "cn",
        _continue_model,
        lambda home, text: home.merge_yaml(CONTINUE, text),
        lambda home, line: home.merge_yaml(
            CONTINUE,
            yaml.safe_dump({"mcpServers": [{"name": "cronty", "command": line[0], "args": list(line[1:])}]}),
        ),
        ["cn", "--config", CONTINUE, "--auto", "-p", PROMPT],
        shows_instructions=False,
        reports_errors_itself=True,
    ),
    "cline": Program(
        "cline",
        _cline_model,
        run_in_terminal,
        lambda home, line: run_in_terminal(home, f"cline mcp add cronty --yes -- {shlex.join(line)}"),
        ["cline", "--json", "-P", "openai-compatible", "-k", "x", "-m", "m", PROMPT],
        shows_instructions=False,
    ),
}
