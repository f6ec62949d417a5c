"""A wrapped command: started without a shell, its output passed through, its signals passed on."""

import errno
import os
import resource
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
KEPT_BYTES = 100_000
# A process that the command has left behind may hold its output open.
REST_SECONDS = 1.0
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
            del self._bytes[:-KEPT_BYTES]

    def text(self) -> str:
        with self._lock:
            return self._bytes.decode(errors="replace")


def run(command: Sequence[str], *, keeps_output: bool, on_start: Callable[[], None]) -> Ended:
    """Run a command until its end; what it prints goes where ours goes, at once."""
    pipe = subprocess.PIPE if keeps_output else None
    tail = Tail()
    sys.stdout.flush()
    with _signals() as children:
        try:
            process = subprocess.Popen(list(command), stdout=pipe, stderr=pipe)  # noqa: S603  # nosec B603  # of the person who types it
        except OSError as error:
            on_start()
            is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            message = f"cronty: {command[0]}: {error.strerror}\n"
            sys.stderr.write(message)
            return Ended(NOT_FOUND if is_missing else NOT_EXECUTABLE, output=message)
        children.append(process)
        on_start()
        readers = [
            threading.Thread(target=_pass, args=(stream, place, tail), daemon=True)
            for stream, place in ((process.stdout, 1), (process.stderr, 2))
            if stream
        ]
        for reader in readers:
            reader.start()
        status = process.wait()
        for reader in readers:
            reader.join(REST_SECONDS)
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


@contextmanager
def _signals() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Pass signals on to the command while it runs; those that are ignored, as under nohup, stay ignored."""
    children: list[subprocess.Popen[bytes]] = []
    is_foreground = sys.stdin is not None and sys.stdin.isatty()
    pending: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if is_foreground and number in _OF_TERMINAL:
            return
        for child in children:
            child.send_signal(number)
        if not children:
            pending.append(number)

    class Children(list["subprocess.Popen[bytes]"]):
        """The command, which gets the signals that came before it had started."""

        def append(self, child: "subprocess.Popen[bytes]") -> None:
            super().append(child)
            for number in pending:
                child.send_signal(number)

    children = Children()
    before = {}
    for number in _PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, pass_on)
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
