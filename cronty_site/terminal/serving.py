"""Run command lines from other machines, with the permissions of a token."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from io import TextIOBase
from typing import IO, Any, cast

from cronty_site.terminal import consoles
from cronty_site.terminal.failures import Failure, show_error
from cronty_site.terminal.group import ALIASES, ELSEWHERE, LOCAL_ONLY, READING, invoke
from schedules.api.auth import Caller
from schedules.api.routes.terminal import Emit
from schedules.api.schemas.terminal import LineIn

ENVIRON = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")
# How often a waiting command checks whether its client is still connected.
CHECK_SECONDS = 1.0


class AnswerNeeded(BaseException):
    """The command needs an answer from the machine of the person; it stops here, and is run again with the answer."""


class ClientGone(BaseException):
    """The client has disconnected."""


class Stream(TextIOBase):
    """A text stream that passes on what a command prints."""

    def __init__(self, write: Callable[[str], None], *, is_terminal: bool) -> None:
        super().__init__()
        self._write, self._is_terminal = write, is_terminal

    def write(self, text: str) -> int:
        self._write(text)
        return len(text)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class RemoteConsole(consoles.Console):
    """A terminal on another machine.

    A command that asks something stops, and is run again with the answer. Until it has used the last answer, its output is
    suppressed, and an answer is valid only if the output before the question is the same as the first time.
    """

    is_remote = True

    def __init__(self, caller: Caller, line: LineIn, emit: Emit, is_over: Callable[[], bool]) -> None:
        self.caller, self.width = caller, line.width if line.out_is_terminal else None
        self._emit, self._is_over = emit, is_over
        self._answers = [(answer.to, answer.value) for answer in line.answers]
        self._environ = {name: text for name, text in line.environ.items() if name in ENVIRON}
        self._suppressed: list[dict[str, Any]] = []
        self._printed = hashlib.sha256()
        self._checked_at = time.monotonic()
        self._out = Stream(self._print_out, is_terminal=line.out_is_terminal)
        self._err = Stream(self._print_err, is_terminal=line.err_is_terminal)

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def stream(self, *, err: bool = False) -> IO[str]:
        return cast(IO[str], self._err if err else self._out)

    def do(self, action: str, *arguments: Any, **values: Any) -> Any:
        request = json.dumps([action, arguments, values])
        digest = hashlib.sha256(self._printed.digest() + request.encode()).hexdigest()
        if self._answers and self._answers[0][0] == digest:
            self._printed.update(digest.encode())
            answer = self._answers.pop(0)[1]
            if not self._answers:
                self._suppressed.clear()
            return answer
        if self._answers:
            self._answers.clear()
            self._suppressed.clear()
            raise Failure("What you were asked about has changed meanwhile: try again.", code="conflict")
        self._emit({"ask": {"action": action, "arguments": arguments, "values": values}, "digest": digest})
        raise AnswerNeeded

    def tell(self, action: str, *arguments: Any) -> None:
        self._say({"do": {"action": action, "arguments": arguments}})

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            if self._is_over():
                raise ClientGone

    def finish(self, code: int) -> None:
        # With unused answers, the command took another path this time: send its output.
        self._answers.clear()
        self._send_suppressed()
        self._emit({"exit": code})

    def _print_out(self, text: str) -> None:
        self._printed.update(text.encode())
        self._say({"out": text})

    def _print_err(self, text: str) -> None:
        self._say({"err": text})

    def _say(self, event: dict[str, Any]) -> None:
        if self._answers:
            self._suppressed.append(event)
        else:
            self._emit(event)

    def _send_suppressed(self) -> None:
        for event in self._suppressed:
            self._emit(event)
        self._suppressed.clear()


class SiteTerminal:
    """Runs command lines of this site for the API."""

    def only_reads(self, words: Sequence[str]) -> bool:
        return ALIASES.get(words[0], words[0]) in READING

    def run(self, caller: Caller, line: LineIn, emit: Emit, is_over: Callable[[], bool]) -> None:
        console = RemoteConsole(caller, line, emit, is_over)
        before = consoles.set_console(console)
        try:
            name = line.words[0]
            if name in LOCAL_ONLY or name in ELSEWHERE or name.startswith("-"):
                show_error(
                    Failure(f"cronty {name} is not sent to a server."),
                    as_json="--json" in line.words,
                    stream=console.stream(err=True),
                )
                console.finish(2)
                return
            console.finish(invoke(list(line.words)))
        except (AnswerNeeded, ClientGone):
            pass
        finally:
            consoles.reset_console(before)
