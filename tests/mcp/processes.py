"""Cronty in separate processes on a separate database, started as an agent's client does."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp.client.stdio import StdioServerParameters

from tests import databases
from tests.forks import QUICK_HASHES, fork_server, python
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
MANAGE = str(ROOT / "manage.py")
PREPARE = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
User.objects.create_superuser("olga", password="correct horse")
call_command("issue_token", user="olga", name="laptop")
"""
# What servers in processes import; building one server fills the caches of the SDK.
IMPORTS = f"""
{QUICK_HASHES}
import django
django.setup()
from django.core.management import get_commands, load_command_class
get_commands()
load_command_class("schedules", "mcp_serve")
from schedules.mcp.server import build_server
import schedules.mcp.http, schedules.mcp.stdio
build_server()
"""


@dataclass(frozen=True)
class Site:
    """A data folder with one user and a token, and the command that starts Python for it."""

    folder: Path
    token: str
    python: tuple[str, ...] = field(default_factory=lambda: tuple(python()))
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def with_fresh_python(self) -> "Site":
        return replace(self, python=(sys.executable,))

    @property
    def is_forked(self) -> bool:
        return self.python != (sys.executable,)

    @property
    def environment(self) -> dict[str, str]:
        """Return the few variables that a client passes on; it starts the server in another folder."""
        return {
            "PATH": os.environ["PATH"],
            "CRONTY_DATA": str(self.folder),
            "DJANGO_SETTINGS_MODULE": "cronty_site.settings",
            "CRONTY_MCP_CALLS_PER_MINUTE": "1000000",
            "CRONTY_MAX_CREATES_PER_MINUTE": "1000000",
        }

    def stdio(self, *arguments: str) -> StdioServerParameters:
        return StdioServerParameters(
            command=self.python[0],
            args=[*self.python[1:], MANAGE, "mcp_serve", *arguments],
            env=self.environment if self.is_forked else without_settings(self.environment),
            cwd=str(self.folder),
        )

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        return self.start_python(MANAGE, *arguments, **options)

    def start_python(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [*self.python, *arguments],
            env={**self.environment, "PYTHONPATH": str(ROOT)},
            cwd=self.folder,
            **{**pipes, **options},
        )
        self.started.append(process)
        return process

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """Kill what the block has started and, if it failed, not ended."""
        before = len(self.started)
        try:
            yield
        finally:
            for process in self.started[before:]:
                process.kill()
                process.wait()
                for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                    with suppress(BrokenPipeError):
                        stream.close()
            del self.started[before:]


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as a client passes them on, so that `manage.py` chooses the settings."""
    return {name: value for name, value in environment.items() if name != "DJANGO_SETTINGS_MODULE"}


@contextmanager
def prepared(folder: Path) -> Iterator[Site]:
    """Prepare a data folder, and run a fork server for its processes."""
    with fork_server(IMPORTS, Site(folder, "").environment) as server:
        site = Site(folder, "", tuple(server.command))
        databases.fill(folder)
        out, err = site.start_python("-c", PREPARE).communicate()
        assert out, err.decode()
        yield replace(site, token=out.decode().strip())


@contextmanager
def serving(site: Site, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Run `mcp_serve --http`; yield the process and its address."""
    port = free_port()
    process = site.start("mcp_serve", "--http", "--port", str(port), *arguments)
    try:
        wait_for_port(process, port)
        yield process, f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


def wait_for_port(process: "subprocess.Popen[bytes]", port: int, host: str = "127.0.0.1") -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, port)).close()
        except OSError:
            # A short wait that also fails early if the process ends.
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
                break
        else:
            return
    process.kill()
    raise RuntimeError(f"the server did not start: {process.communicate()[1].decode()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
