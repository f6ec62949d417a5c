"""Command lines from other machines, executed here with the rights of a token."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from io import TextIOBase
from typing import IO, Any, cast

from cronty_site.terminal import consoles
from cronty_site.terminal.failures import Failure, show_error
from cronty_site.terminal.group import ALIASES, ELSEWHERE, ON_THE_MACHINE, READING, invoke
from schedules.api.auth import Caller
from schedules.api.routes.terminal import Emit
from schedules.api.schemas.terminal import LineIn

ENVIRON = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS")
# How often a line that waits looks whether anybody waits for it.
CHECK_SECONDS = 1.0


class Asking(BaseException):
    """The command needs an answer from the machine of the person; it ends here, and is executed again with it."""


class Gone(BaseException):
    """Nobody waits for the command any more."""


class Stream(TextIOBase):
    """What a command prints on one of its streams."""

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

    A command that asks something ends, and is executed again with the answer: until the last answer is used, it prints
    nothing, and each answer holds only if what it has printed before is the same as when it was given.
    """

    is_remote = True

    def __init__(self, caller: Caller, line: LineIn, emit: Emit, is_over: Callable[[], bool]) -> None:
        self.caller, self.width = caller, line.width if line.out_is_terminal else None
        self._emit, self._is_over = emit, is_over
        self._answers = [(answer.to, answer.value) for answer in line.answers]
        self._environ = {name: text for name, text in line.environ.items() if name in ENVIRON}
        self._kept: list[dict[str, Any]] = []
        self._printed = hashlib.sha256()
        self._looked_at = time.monotonic()
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
                self._kept.clear()
            return answer
        if self._answers:
            self._answers.clear()
            self._kept.clear()
            raise Failure("What you were asked about has changed meanwhile: try again.", code="conflict")
        self._emit({"ask": {"action": action, "arguments": arguments, "values": values}, "digest": digest})
        raise Asking

    def tell(self, action: str, *arguments: Any) -> None:
        self._say({"do": {"action": action, "arguments": arguments}})

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if time.monotonic() - self._looked_at >= CHECK_SECONDS:
            self._looked_at = time.monotonic()
            if self._is_over():
                raise Gone

    def finish(self, code: int) -> None:
        # A command that ended sooner than it asked the last time has printed something else.
        self._answers.clear()
        self._send_kept()
        self._emit({"exit": code})

    def _print_out(self, text: str) -> None:
        self._printed.update(text.encode())
        self._say({"out": text})

    def _print_err(self, text: str) -> None:
        self._say({"err": text})

    def _say(self, event: dict[str, Any]) -> None:
        if self._answers:
            self._kept.append(event)
        else:
            self._emit(event)

    def _send_kept(self) -> None:
        for event in self._kept:
            self._emit(event)
        self._kept.clear()


class SiteTerminal:
    """The commands of this site, for the API."""

    def only_reads(self, words: Sequence[str]) -> bool:
        return ALIASES.get(words[0], words[0]) in READING

    def run(self, caller: Caller, line: LineIn, emit: Emit, is_over: Callable[[], bool]) -> None:
        console = RemoteConsole(caller, line, emit, is_over)
        before = consoles.use(console)
        try:
            name = line.words[0]
            if name in ON_THE_MACHINE or name in ELSEWHERE or name.startswith("-"):
                show_error(
                    Failure(f"cronty {name} is not sent to a server."),
                    as_json="--json" in line.words,
                    stream=console.stream(err=True),
                )
                console.finish(2)
                return
            console.finish(invoke(list(line.words)))
        except (Asking, Gone):
            pass
        finally:
            consoles.leave(before)
