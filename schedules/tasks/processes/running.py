"""Running a program under a guard, on the worker's side: start it, pass on its output, and terminate it in time."""

import ast
import asyncio
import json
import marshal
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from django.conf import settings

from schedules.tasks.processes import guard
from schedules.tasks.time_limit import TimeLimit

GUARD = str(Path(guard.__file__))
# Imports the guard instead of running it as a script, because Python caches the bytecode of imported files only.
START_GUARD = "import os, sys; sys.path.append(os.path.dirname(sys.argv[2])); import guard; guard.start(int(sys.argv[1]))"
# How long a program may take to end after SIGTERM.
GRACE_SECONDS = 5.0
HEARTBEATS_PER_LEASE = 3
# The environment variable that marks all processes of a program, with a different value for each program.
MARK = "CRONTY_MARK"
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


class Sink(Protocol):
    """Receives the output of a program, about once a second."""

    def add(self, stream: int, data: bytes) -> None:
        """Take what was printed on standard output (1) or error (2)."""

    def skip(self, stream: int, count: int) -> None:
        """Note that so many bytes of this stream were dropped."""


class StartError(Exception):
    """The program could not be started; the text says why."""


class Identity(NamedTuple):
    """The user and groups that a program runs as; only root can switch to others."""

    user: int
    group: int
    groups: tuple[int, ...]


class Limits(NamedTuple):
    """Limits for each process of a program: CPU time, and bytes of address space."""

    cpu: timedelta | None
    memory: int | None

    def as_numbers(self) -> tuple[int | None, int | None]:
        return math.ceil(self.cpu.total_seconds()) if self.cpu else None, self.memory


@dataclass(frozen=True)
class Program:
    """A program to start, with its arguments as a list: no shell reads them."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    input: str | None = None
    umask: int = 0o077
    head: int = 16_384
    tail: int = 16_384
    """`head` bytes are kept from the beginning of its output, and then `tail` bytes between two flushes."""
    identity: Identity | None = None
    limits: Limits | None = None
    mark: str = ""
    """A random text that all its processes inherit, to find them if both processes of the guard are killed."""


@dataclass(frozen=True)
class Ended:
    """How a program ended; `code` is None if a signal killed it."""

    code: int | None
    signal: int | None
    cpu_seconds: float
    peak_bytes: int
    survivors: int
    """How many of its processes could not be killed, because they belong to another user."""
    is_timeout: bool = False

    @property
    def signal_name(self) -> str:
        with suppress(ValueError):
            return signal.Signals(self.signal or 0).name
        return str(self.signal)

    def describe(self, name: str, timeout: float) -> str:
        """Say how a program that failed ended, without a full stop."""
        if self.is_timeout:
            return f"{name} did not finish within {timeout:g} s and was stopped"
        if self.signal:
            return f"{name} was killed by {self.signal_name}"
        return f"{name} ended with code {self.code}"


async def run_program(program: Program, timeout: float, sink: Sink) -> Ended:
    """Run a program, and return once it and everything that it started have ended.

    They are terminated after `timeout` seconds, and when this coroutine is cancelled. Raises StartError.
    """
    ours, theirs = socket.socketpair()
    starting = asyncio.ensure_future(_start_guard(theirs))
    try:
        process = await asyncio.shield(starting)
    except OSError as error:
        ours.close()
        raise StartError(str(error.strerror)) from error
    except asyncio.CancelledError:
        # Let the start finish, because cancelling it halfway can hang for ever; the guard ends without a worker.
        process = await starting
        ours.close()
        await process.wait()
        raise
    finally:
        theirs.close()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    guarded = _Guarded(process, reader, writer, sink)
    try:
        return await guarded.run(program, timeout)
    finally:
        await asyncio.shield(guarded.close())


async def _start_guard(control: socket.socket) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        START_GUARD,
        str(control.fileno()),
        GUARD,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(control.fileno(),),
        # Not the environment of the worker, which holds secrets.
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
        start_new_session=True,
    )


def packed(spec: dict[str, Any]) -> bytes:
    """Encode the description of a program with marshal, which the guard can decode without slow imports."""
    # First through JSON, which leaves plain values: marshal refuses subclasses of str and tuple.
    return marshal.dumps(json.loads(json.dumps(spec)))


def _send_heartbeats(handle: int, interval: float, ended: threading.Event) -> None:
    """Send heartbeats from a thread: a coroutine that blocks the event loop must not end commands."""
    while not ended.wait(interval):
        with suppress(OSError):
            os.write(handle, b"+")
    os.close(handle)


class _Guarded:
    """A guard and the program that it runs."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sink: Sink,
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self._sink = sink
        self._pid = 0
        self._mark = ""
        self._report: dict[str, Any] | None = None

    async def run(self, program: Program, timeout: float) -> Ended:
        lease = float(settings.CRONTY_LEASE_SECONDS)
        self._mark = program.mark
        mark = {MARK: program.mark} if program.mark else {}
        spec = {
            "arguments": list(program.arguments),
            "environment": {**program.environment, **mark},
            "directory": program.directory,
            "input": program.input,
            "umask": program.umask,
            "head": program.head,
            "tail": program.tail,
            "identity": program.identity,
            "limits": program.limits and program.limits.as_numbers(),
            "lease": lease,
            "grace": GRACE_SECONDS,
        }
        self._writer.write(guard.frame(guard.PROGRAM, packed(spec)))
        await self._flush()
        ended = threading.Event()
        # The thread gets its own descriptor, which nobody else closes while it writes.
        handle = os.dup(self._writer.get_extra_info("socket").fileno())
        arguments = handle, lease / HEARTBEATS_PER_LEASE, ended
        threading.Thread(target=_send_heartbeats, args=arguments, name="guard heartbeat", daemon=True).start()
        reading = asyncio.ensure_future(self._read())
        is_timeout = False
        try:
            async with TimeLimit(timeout):
                await asyncio.shield(reading)
        except TimeoutError:
            is_timeout = True
            await self._terminate(reading)
        except asyncio.CancelledError:
            await asyncio.shield(self._terminate(reading))
            raise
        finally:
            ended.set()
            reading.cancel()
        return self._ended(is_timeout)

    async def close(self) -> None:
        """Close the connection, so that a guard that still runs kills everything, and reap the guard."""
        self._writer.close()
        # A stopped guard would not notice.
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
        if self._report is None and self._pid:
            # The guard itself was killed. The program died with it, but the rest of its group may live on.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            if guard.IS_LINUX and self._mark:
                # So may processes that left the group, if both processes of the guard were killed at once.
                marked = f"{MARK}={self._mark}"
                await asyncio.to_thread(guard.kill_all, lambda: guard.find_marked(marked))
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * guard.KILL_SECONDS):
                await self._process.wait()

    async def _flush(self) -> None:
        """Wait until everything is written, so that no heartbeat ends up in the middle of a frame."""
        self._writer.transport.set_write_buffer_limits(high=0)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def _terminate(self, reading: "asyncio.Future[None]") -> None:
        self._writer.write(b"T")
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS + 2 * guard.KILL_SECONDS):
                await asyncio.shield(reading)

    async def _read(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while self._report is None:
                kind, size = guard.FRAME.unpack(await self._reader.readexactly(guard.FRAME.size))
                data = await self._reader.readexactly(size)
                match kind:
                    case guard.PID:
                        self._pid = int(data)
                    case guard.OUTPUT | guard.ERRORS:
                        self._sink.add(int(kind), data)
                    case guard.DROPPED:
                        self._sink.skip(int(data[:1]), int(data[1:]))
                    case _:
                        self._report = ast.literal_eval(data.decode())

    def _ended(self, is_timeout: bool) -> Ended:
        report = self._report or {"status": None, "cpu": 0.0, "peak": 0, "survivors": 0}
        if problem := report.get("problem"):
            raise StartError(problem)
        status = report["status"]
        code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
        return Ended(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            cpu_seconds=report["cpu"],
            peak_bytes=report["peak"],
            survivors=report["survivors"],
            is_timeout=is_timeout,
        )
