"""Run a command line on a remote Cronty: print its output, and run the local actions that it requests."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from cronty_site.terminal.elsewhere.local_actions import ACTIONS
from cronty_site.terminal.elsewhere.server import AwayError, RefusedError, Server, read_secret, read_url
from cronty_site.terminal.failures import ExitCode, Failure

PATH = "/api/v1/terminal"
SENT_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")
# Actions whose first argument is the path of a file.
_WITH_PATH = ("read_text", "read_files", "source_of", "write_text")
MAX_QUESTIONS = 20


def remote_server() -> Server | None:
    """Return the server that commands are sent to, if it has an address and a token, and is not switched off."""
    url = os.environ.get("CRONTY_URL", "").strip()
    switch = os.environ.get("CRONTY_REMOTE", "").strip().lower()
    if switch in ("off", "false", "no", "0"):
        return None
    token = read_secret("CRONTY_TOKEN")
    if switch in ("on", "true", "yes", "1") and not (url and token):
        raise click.UsageError("CRONTY_REMOTE is on: set CRONTY_URL and CRONTY_TOKEN, too.")
    return Server(read_url(url), token) if url and token else None


def run_remotely(server: Server, words: Sequence[str]) -> int:
    """Run a command line on the server as if it ran here; return its exit code."""
    answers: list[dict[str, Any]] = []
    edited: dict[str, bool] = {}
    error_output = ""
    for _ in range(MAX_QUESTIONS):
        question = None
        for event in _events(server, words, answers):
            if "out" in event:
                _print(sys.stdout, event["out"])
            elif "err" in event:
                error_output += event["err"]
                _print(sys.stderr, event["err"])
            elif "exit" in event:
                return _end(int(event["exit"]), edited, error_output)
            elif "do" in event:
                _discard(event["do"], edited)
            elif "ask" in event:
                question = event
        if question is None:
            message = f"{server.url} broke off: look there what has become of the command."
            raise Failure(message, ExitCode.NOT_READY, code="not_ready")
        answers.append({"to": question["digest"], "value": _answer(question["ask"], words, edited)})
    raise Failure("The server asks again and again: try again.", code="error")


def _events(
    server: Server, words: Sequence[str], answers: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    is_terminal = sys.stdout.isatty()
    line = {
        "words": list(words),
        "answers": list(answers),
        "out_is_terminal": is_terminal,
        "err_is_terminal": sys.stderr.isatty(),
        "width": shutil.get_terminal_size().columns if is_terminal else None,
        "environ": {name: os.environ[name][:100] for name in SENT_VARIABLES if name in os.environ},
    }
    try:
        for text in server.stream("POST", PATH, json.dumps(line).encode()):
            if text.strip():
                yield json.loads(text)
    except AwayError as error:
        raise Failure(
            f"{server.url} is not reached ({error}).", ExitCode.NOT_READY, code="not_ready"
        ) from error
    except RefusedError as error:
        code = ExitCode.NOT_READY if error.status >= 500 else ExitCode.REFUSED
        raise Failure(f"{server.url}: {error}", code, code=error.code) from error
    except ValueError as error:
        raise Failure(
            f"{server.url} does not answer like Cronty.", ExitCode.NOT_READY, code="not_ready"
        ) from error


def _answer(question: Mapping[str, Any], words: Sequence[str], edited: dict[str, bool]) -> Any:
    """Run the action that the server requests; it may only access files that the command line names."""
    action, arguments = question["action"], question["arguments"]
    allowed_paths = {"-", *words, *(word.partition("=")[2] for word in words)} - {""}
    if action in _WITH_PATH and arguments[0] not in allowed_paths:
        raise Failure("The server asks for a file that the command does not name.", code="refused")
    if action not in ACTIONS or action == "discard":
        raise Failure(f"The server asks for {action!r}: update cronty here.", code="refused")
    answer = ACTIONS[action](*arguments, **question["values"])
    if action == "edit":
        name, text = answer
        edited[name] = text != arguments[0]
    return answer


def _discard(request: Mapping[str, Any], edited: dict[str, bool]) -> None:
    """Delete the file of a text that was edited here; refuse any other."""
    name = request["arguments"][0]
    if request["action"] == "discard" and edited.pop(name, None) is not None:
        ACTIONS["discard"](name)


def _end(code: int, edited: Mapping[str, bool], error_output: str) -> int:
    """Name the files of edited texts that the server did not accept, and delete unchanged ones."""
    for name, is_changed in edited.items():
        if is_changed and name not in error_output:
            click.echo(f"Your text is kept in {name}.", err=True)
        elif not is_changed:
            ACTIONS["discard"](name)
    return code


def _print(stream: Any, text: str) -> None:
    stream.write(text)
    stream.flush()
