"""The terminal of a person whose Cronty is on another machine: it sends the command line, and does what it is asked."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from cronty_site.terminal.elsewhere.desk import ACTIONS
from cronty_site.terminal.elsewhere.server import AwayError, RefusedError, Server, read_secret, read_url
from cronty_site.terminal.failures import ExitCode, Failure

PATH = "/api/v1/terminal"
SENT_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")
# What reads or writes the file that its first argument names.
_WITH_PATH = ("read_text", "read_files", "source_of", "write_text")
MAX_QUESTIONS = 20


def remote_server() -> Server | None:
    """Return the server that commands are sent to, if there is an address and a token and it is not switched off."""
    url = os.environ.get("CRONTY_URL", "").strip()
    switch = os.environ.get("CRONTY_REMOTE", "").strip().lower()
    if switch in ("off", "false", "no", "0"):
        return None
    token = read_secret("CRONTY_TOKEN")
    if switch in ("on", "true", "yes", "1") and not (url and token):
        raise click.UsageError("CRONTY_REMOTE is on: set CRONTY_URL and CRONTY_TOKEN, too.")
    return Server(read_url(url), token) if url and token else None


def run_there(server: Server, words: Sequence[str]) -> int:
    """Execute a command line on the server, as if it were executed here; return its exit code."""
    answers: list[dict[str, Any]] = []
    edited: dict[str, bool] = {}
    said = ""
    for _ in range(MAX_QUESTIONS):
        question = None
        for event in _events(server, words, answers):
            if "out" in event:
                _print(sys.stdout, event["out"])
            elif "err" in event:
                said += event["err"]
                _print(sys.stderr, event["err"])
            elif "exit" in event:
                return _end(int(event["exit"]), edited, said)
            elif "do" in event:
                _discard(event["do"], edited)
            elif "ask" in event:
                question = event
        if question is None:
            words_of_error = f"{server.url} broke off: look there what has become of the command."
            raise Failure(words_of_error, ExitCode.NOT_READY, code="not_ready")
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
    """Do what the server asks for; it gets no file that the command line does not name."""
    action, arguments = question["action"], question["arguments"]
    named = {"-", *words, *(word.partition("=")[2] for word in words)} - {""}
    if action in _WITH_PATH and arguments[0] not in named:
        raise Failure("The server asks for a file that the command does not name.", code="refused")
    if action not in ACTIONS or action == "discard":
        raise Failure(f"The server asks for {action!r}: update cronty here.", code="refused")
    answer = ACTIONS[action](*arguments, **question["values"])
    if action == "edit":
        name, text = answer
        edited[name] = text != arguments[0]
    return answer


def _discard(told: Mapping[str, Any], edited: dict[str, bool]) -> None:
    """Delete the file of a text that was edited here, and no other."""
    name = told["arguments"][0]
    if told["action"] == "discard" and edited.pop(name, None) is not None:
        ACTIONS["discard"](name)


def _end(code: int, edited: Mapping[str, bool], said: str) -> int:
    """Say where an edited text is that the server has not taken."""
    for name, is_changed in edited.items():
        if is_changed and name not in said:
            click.echo(f"Your text is kept in {name}.", err=True)
        elif not is_changed:
            ACTIONS["discard"](name)
    return code


def _print(stream: Any, text: str) -> None:
    stream.write(text)
    stream.flush()
