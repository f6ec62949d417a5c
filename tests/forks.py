"""Processes forked from one that has finished its imports, because a fresh Python needs seconds for Django and the SDK.

A test starts `[*server.command, "manage.py", …]` instead of `[sys.executable, "manage.py", …]`. The process that it gets
passes its standard streams to the fork, forwards signals to it, and ends as the fork ends.
"""

import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
FORWARDED = (signal.SIGINT, signal.SIGTERM)
LONGEST_REQUEST = 1 << 20
# Arguments, folder and environment.
Request: TypeAlias = tuple[list[str], str, dict[str, str]]


@dataclass(frozen=True)
class ForkServer:
    """A process that has run some imports and forks on request."""

    address: str

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-I", "-S", __file__, "request", self.address]


@contextmanager
def fork_server(imports: str, environment: Mapping[str, str]) -> Iterator[ForkServer]:
    """Run a fork server for the length of a `with` block."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = f"{folder}/fork"
        listener.bind(address)
        listener.listen(100)
        command = [sys.executable, "-m", "tests.forks", "serve", str(listener.fileno()), imports]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
        ):
            # The server ends when `with` closes its standard input.
            yield ForkServer(address)


def main() -> None:
    role, where, *more = sys.argv[1:]
    if role == "request":
        _request(where, more)
    else:
        exec(more[0], {})  # noqa: S102
        _run(*_serve(socket.socket(fileno=int(where))))


def _request(address: str, arguments: list[str]) -> None:
    """Have a process forked with the streams of this one, and end as it ends."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(address)
        for number in FORWARDED:
            signal.signal(number, lambda number, _: wire.sendall(bytes([number])))
        request = marshal.dumps((arguments, os.getcwd(), dict(os.environ)))
        socket.send_fds(wire, [len(request).to_bytes(4) + request], [0, 1, 2])
        answer = wire.recv(4)
    if not answer:
        sys.exit("the fork server ended")
    code = int.from_bytes(answer, signed=True)
    if code < 0:
        if -code in FORWARDED:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _serve(listener: socket.socket) -> Request:
    """Fork for each request until standard input closes; return only in the forked processes."""
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        if any(key.fileobj is sys.stdin for key, _ in waiting.select()):
            os._exit(0)
        wire, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return _fork_and_watch(wire)
        wire.close()


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork_and_watch(wire: socket.socket) -> Request:
    """Fork the requested process, where this returns; here, forward signals to it and report its end."""
    data, streams, _, _ = socket.recv_fds(wire, LONGEST_REQUEST, 3)
    while len(data) < 4 + int.from_bytes(data[:4]):
        data += wire.recv(LONGEST_REQUEST)
    pid = os.fork()
    if pid == 0:
        wire.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        request: Request = marshal.loads(data[4:])  # noqa: S302
        return request
    for stream in streams:
        os.close(stream)
    threading.Thread(target=_forward_signals, args=(wire, pid), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        wire.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))
    os._exit(0)


def _forward_signals(wire: socket.socket, pid: int) -> None:
    with suppress(ProcessLookupError):
        while number := wire.recv(1):
            os.kill(pid, number[0])
        # The requesting process was killed.
        os.kill(pid, signal.SIGKILL)


def _run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run `-c CODE` or a script with its arguments, as Python does."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        exec(arguments[1], {"__name__": "__main__"})  # noqa: S102
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
