"""Run a wrapped command without a shell; its output is passed through, and signals are forwarded to it."""

import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import IO

# The limit of a ping.
MAX_OUTPUT_BYTES = 100_000
# How long to wait for the end of the output, which a process that the command left behind may hold open.
DRAIN_SECONDS = 1.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_FORWARDED = (
    *_ENDING,
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
# The terminal itself sends these to the command.
_SENT_BY_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: the exit code as in a shell, and the signal that ended it, if any."""

    code: int
    signal: int = 0
    output: str = ""


class Tail:
    """The last bytes that a command prints on its two streams."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._lock = threading.Lock()

    def add(self, part: bytes) -> None:
        with self._lock:
            self._bytes += part
            del self._bytes[:-MAX_OUTPUT_BYTES]

    def text(self) -> str:
        with self._lock:
            return self._bytes.decode(errors="replace")


def run(
    command: Sequence[str],
    *,
    keeps_output: bool,
    on_start: Callable[[], None],
    on_end: Callable[[CommandResult], None],
    afterwards: Callable[[], None],
) -> CommandResult:
    """Run a command until its end, and pass its output on at once; a signal ends what is done afterwards."""
    with _signals() as child:
        result = _run(child, command, keeps_output=keeps_output, on_start=on_start)
        on_end(result)
        try:
            child.is_over = True
            afterwards()
        except _StoppedError:
            pass
        finally:
            child.is_over = False
    return result


def _run(
    child: "_Child", command: Sequence[str], *, keeps_output: bool, on_start: Callable[[], None]
) -> CommandResult:
    pipe = subprocess.PIPE if keeps_output else None
    tail = Tail()
    sys.stdout.flush()
    try:
        process = subprocess.Popen(list(command), stdout=pipe, stderr=pipe)  # noqa: S603  # nosec B603  # of the person who types it
    except OSError as error:
        on_start()
        is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        message = f"cronty: {command[0]}: {error.strerror}\n"
        sys.stderr.write(message)
        return CommandResult(NOT_FOUND if is_missing else NOT_EXECUTABLE, output=message)
    child.started(process)
    on_start()
    readers = [
        threading.Thread(target=_copy_output, args=(stream, target, tail), daemon=True)
        for stream, target in ((process.stdout, 1), (process.stderr, 2))
        if stream
    ]
    for reader in readers:
        reader.start()
    status = child.wait()
    for reader in readers:
        reader.join(DRAIN_SECONDS)
    if status < 0:
        return CommandResult(128 - status, -status, tail.text())
    return CommandResult(status, output=tail.text())


def die_by(number: int) -> None:
    """End this process by the signal that ended the command, so that the parent sees the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    # The command has written its own core file, if any.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _copy_output(stream: IO[bytes], target: int, tail: Tail) -> None:
    source = stream.fileno()
    while part := os.read(source, 65536):
        tail.add(part)
        try:
            while part:
                part = part[os.write(target, part) :]
        except OSError:
            # Nobody reads the output: close the pipe, so that the command gets the same error.
            stream.close()
            return


class _StoppedError(BaseException):
    """A signal has ended what was done after the command."""


class _Child:
    """The command; it gets all signals that arrive while it runs, and those that arrived before it started."""

    is_over = False
    """Whether signals are for this process again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pending: list[int] = []
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def started(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        for number in self._pending:
            process.send_signal(number)

    def send(self, number: int) -> None:
        if self.is_over and number in _ENDING:
            self.is_over = False
            raise _StoppedError
        if self._process is None:
            self._pending.append(number)
        else:
            self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end and for signals together; a signal just before `waitpid` would be delayed until the end."""
        while self._process is None or (status := self._process.poll()) is None:
            select.select([self._wake_read], [], [])
            with suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        return status

    @contextmanager
    def waking(self) -> Iterator[None]:
        """Let every signal wake up `wait`, including SIGCHLD."""
        chld = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        fd = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(fd)
            signal.signal(signal.SIGCHLD, chld if chld is not None else signal.SIG_DFL)
            os.close(self._wake_read)
            os.close(self._wake_write)


@contextmanager
def _signals() -> Iterator[_Child]:
    """Forward signals to the command while it runs; ignored ones, as under nohup, stay ignored."""
    is_foreground = sys.stdin is not None and sys.stdin.isatty()
    child = _Child()

    def forward(number: int, frame: FrameType | None) -> None:
        if child.is_over or not (is_foreground and number in _SENT_BY_TERMINAL):
            child.send(number)

    before = {}
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, forward)
    try:
        with child.waking():
            yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
