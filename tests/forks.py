"""Processes forked from one that has finished its imports, because a fresh Python needs seconds for Django and the SDK.

A test starts `[*python(), "manage.py", …]` instead of `[sys.executable, "manage.py", …]`. The process that it gets
passes its standard streams to the fork, forwards signals to it, and ends as the fork ends. A test that needs the id
of the process itself uses `Fork`. All processes of a test run share one server, which has imported only what reads
no settings.
"""

import gc
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
from io import TextIOWrapper
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
# Names the server of this test run to the workers of pytest.
SHARED = "TESTS_FORK_SERVER"
# A password takes half a second to hash otherwise, which protects nobody here.
QUICK_HASHES = """
from django.contrib.auth.hashers import PBKDF2PasswordHasher
PBKDF2PasswordHasher.iterations = 1
"""
# Modules that read no settings when they are imported.
LIBRARIES = f"""
{QUICK_HASHES}
import concurrent.futures, json, logging.config, multiprocessing.managers, multiprocessing.queues, sqlite3, zoneinfo
import django.contrib.messages.api, django.contrib.staticfiles.utils, django.contrib.syndication.views
import django.core.checks, django.core.handlers.asgi, django.core.mail, django.core.management.commands.check
import django.core.management.commands.migrate, django.core.paginator, django.core.serializers.json
import django.contrib.auth.hashers, django.db.backends.sqlite3.base, django.db.backends.postgresql.base
import django.db.migrations.executor, django.db.models, django.forms, django.middleware.cache, django.middleware.csrf
import django.shortcuts, django.template.defaulttags, django.template.engine, django.template.loader_tags
import django.templatetags.i18n, django.test, django.urls, django.views.debug, django.views.generic, django.views.i18n
import croniter, cronsim, csp.constants, dj_database_url, django_htmx.http, django_stubs_ext, httpx2, idna, psycopg
import certifi, h11, packaging.version, psutil, pydantic, rich.logging, tzdata, uvicorn.main, whitenoise.base
import uvicorn.protocols.http.h11_impl
import mcp.client.stdio, mcp.server.mcpserver, mcp.server.stdio, mcp.server.streamable_http_manager
import setproctitle
# What the workers of pytest need, but for its plugins, whose assertions it rewrites.
import factory, hypothesis.strategies, playwright.sync_api, pytest, schemathesis
# The library looks for the memory of the title once, beside the first environment. Without spaces: since Python 3.12, a
# fork reads the number of threads from the words after the title.
setproctitle.setproctitle("test-fork-server")
"""
FORWARDED = (signal.SIGINT, signal.SIGTERM)
LONGEST_REQUEST = 1 << 20
# Arguments, folder and environment.
Request: TypeAlias = tuple[list[str], str, dict[str, str]]


class Fork:
    """A forked process, to be used like `subprocess.Popen`; it is killed when this object or its process is gone."""

    def __init__(self, address: str, arguments: list[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        self._wire = socket.socket(socket.AF_UNIX)
        self._wire.connect(address)
        request = marshal.dumps((arguments, str(cwd), dict(env)))
        socket.send_fds(self._wire, [len(request).to_bytes(4) + request], [0, 1, 2])
        self.pid = self._read()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._wire, selectors.EVENT_READ)
                if not waiting.select(timeout):
                    raise subprocess.TimeoutExpired("fork", timeout or 0)
            self.returncode = self._read()
            self._wire.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        answer = self._wire.recv(4, socket.MSG_WAITALL)
        if len(answer) < 4:
            raise RuntimeError("the fork server ended")
        return int.from_bytes(answer, signed=True)


@dataclass(frozen=True)
class ForkServer:
    """A process that runs some imports before the first request, and forks for each."""

    address: str

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-I", "-S", __file__, "request", self.address]


def python() -> list[str]:
    """Return the command of a quick Python; without a server, as outside of pytest, of an ordinary one."""
    return ForkServer(os.environ[SHARED]).command if SHARED in os.environ else [sys.executable]


def start(arguments: list[str], *, cwd: Path, env: Mapping[str, str]) -> "Fork | subprocess.Popen[bytes]":
    """Start a quick Python whose own process id is known."""
    if SHARED in os.environ:
        return Fork(os.environ[SHARED], arguments, cwd=cwd, env=env)
    return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=env)


@contextmanager
def fork_server(imports: str, environment: Mapping[str, str]) -> Iterator[ForkServer]:
    """Run a fork server for the length of a `with` block."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = f"{folder}/fork"
        listener.bind(address)
        listener.listen(100)
        command = [sys.executable, "-P", __file__, "serve", str(listener.fileno()), imports]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, **_coverage()},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        ):
            # The server ends when `with` closes its standard input.
            yield ForkServer(address)


def _coverage() -> dict[str, str]:
    """Return the variable with which a process is measured by `make coverage`, whatever else a test gives it."""
    name = "COVERAGE_PROCESS_CONFIG"
    return {name: os.environ[name]} if name in os.environ else {}


def main() -> None:
    role, where, *more = sys.argv[1:]
    if role == "request":
        _request(where, more)
    else:
        _run(*_serve(socket.socket(fileno=int(where)), imports=more[0]))


def _request(address: str, arguments: list[str]) -> None:
    """Have a process forked with the streams of this one, and end as it ends."""
    # The fork can be heard, and this process signalled, before its id has arrived here.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    fork = Fork(address, arguments, cwd=Path.cwd(), env=os.environ)

    def forward(number: int, frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(fork.pid, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = fork.wait()
    if code < 0:
        if -code in FORWARDED:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _serve(listener: socket.socket, imports: str) -> Request:
    """Fork for each request until standard input closes; return only in the forked processes."""
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        if any(key.fileobj is sys.stdin for key, _ in waiting.select()):
            os._exit(0)
        if imports:
            sys.path.insert(0, str(ROOT))
            exec(imports, {})  # noqa: S102
            sys.path.remove(str(ROOT))
            imports = ""
            # A collection would copy every page of memory that the forks share.
            gc.freeze()
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
    """Fork the requested process, where this returns; here, report its id and its end."""
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
    with suppress(ConnectionError):
        wire.sendall(pid.to_bytes(4, signed=True))
    threading.Thread(target=_end_with_its_user, args=(wire, pid), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with suppress(ConnectionError):
        wire.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))
    os._exit(0)


def _end_with_its_user(wire: socket.socket, pid: int) -> None:
    # The wire is reset if the user ended before it read what it was sent.
    with suppress(ConnectionError):
        wire.recv(1)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _run(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run `-c CODE`, `-m MODULE` or a script with its arguments, as Python does."""
    environment = {**environment, **_coverage()}
    os.environ.clear()
    os.environ.update(environment)
    # Python reads this variable when it starts, and a fork does not start.
    is_unbuffered = bool(environment.get("PYTHONUNBUFFERED")) or arguments[0] == "-u"
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        # Errors are written line by line in any case.
        by_line = is_unbuffered or stream is sys.stderr
        stream.reconfigure(write_through=is_unbuffered, line_buffering=by_line)
    os.chdir(folder)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    first, *more = arguments
    if first == "-u":
        first, *more = more
    if first == "-c":
        sys.argv = ["-c", *more[1:]]
        sys.path.insert(0, "")
        exec(more[0], {"__name__": "__main__"})  # noqa: S102
    elif first == "-m":
        sys.argv = more
        sys.path.insert(0, folder)
        runpy.run_module(more[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
