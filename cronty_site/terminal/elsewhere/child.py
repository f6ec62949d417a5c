"""A wrapped command: started without a shell, its output passed through, its signals passed on."""

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

# As much as a ping may carry.
MAX_OUTPUT_BYTES = 100_000
# A process that the command has left behind may hold its output open.
DRAIN_SECONDS = 1.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
# The terminal sends these to the command, too.
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


@dataclass(frozen=True)
class Ended:
    """How a command ended: as a shell says it, and by which signal, if by one."""

    code: int
    signal: int = 0
    output: str = ""


class Tail:
    """The last bytes of what a command prints on both of its streams."""

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


def run(command: Sequence[str], *, keeps_output: bool, on_start: Callable[[], None]) -> Ended:
    """Run a command until its end; what it prints goes where ours goes, at once."""
    pipe = subprocess.PIPE if keeps_output else None
    tail = Tail()
    sys.stdout.flush()
    with _signals() as child:
        try:
            process = subprocess.Popen(list(command), stdout=pipe, stderr=pipe)  # noqa: S603  # nosec B603  # of the person who types it
        except OSError as error:
            on_start()
            is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            message = f"cronty: {command[0]}: {error.strerror}\n"
            sys.stderr.write(message)
            return Ended(NOT_FOUND if is_missing else NOT_EXECUTABLE, output=message)
        child.started(process)
        on_start()
        readers = [
            threading.Thread(target=_pass, args=(stream, place, tail), daemon=True)
            for stream, place in ((process.stdout, 1), (process.stderr, 2))
            if stream
        ]
        for reader in readers:
            reader.start()
        status = child.wait()
        for reader in readers:
            reader.join(DRAIN_SECONDS)
    if status < 0:
        return Ended(128 - status, -status, tail.text())
    return Ended(status, output=tail.text())


def die_by(number: int) -> None:
    """End this process by the signal that ended the command, so that whoever waits sees the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    # The command has left a core file if one is wanted.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _pass(stream: IO[bytes], place: int, tail: Tail) -> None:
    source = stream.fileno()
    while part := os.read(source, 65536):
        tail.add(part)
        try:
            while part:
                part = part[os.write(place, part) :]
        except OSError:
            # Nobody reads: the command must learn of it as it would without us.
            stream.close()
            return


class _Child:
    """The command, which gets every signal that comes while it runs, or came before it had started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pending: list[int] = []
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)

    def started(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        for number in self._pending:
            process.send_signal(number)

    def send(self, number: int) -> None:
        if self._process is None:
            self._pending.append(number)
        else:
            self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end and for signals at once: one that came just before `waitpid` would wait as long as it."""
        while self._process is None or (status := self._process.poll()) is None:
            select.select([self._woken], [], [])
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
        return status

    @contextmanager
    def waking(self) -> Iterator[None]:
        """Let every signal wake `wait`, that of the command's end included."""
        chld = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        fd = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(fd)
            signal.signal(signal.SIGCHLD, chld if chld is not None else signal.SIG_DFL)
            os.close(self._woken)
            os.close(self._waker)


@contextmanager
def _signals() -> Iterator[_Child]:
    """Pass signals on to the command while it runs; those that are ignored, as under nohup, stay ignored."""
    is_foreground = sys.stdin is not None and sys.stdin.isatty()
    child = _Child()

    def pass_on(number: int, frame: FrameType | None) -> None:
        if not (is_foreground and number in _OF_TERMINAL):
            child.send(number)

    before = {}
    for number in _PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, pass_on)
    try:
        with child.waking():
            yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
