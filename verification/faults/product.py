"""The real product as processes: started on a fresh database, found by role, and restarted."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

PROJECT = Path(__file__).resolve().parent.parent.parent
TOKEN_USER = "admin"
PASSWORD = "correct-horse-battery"
# A process that is there for longer after its leader has ended, in seconds, is an orphan.
TIME_TO_DIE = 10
# What django-q2 writes into the title of a worker process.
WORKER_TITLES = (" idle", " processing ")

# Seconds. Shorter than shipped, to meet more faults an hour.
LEASE = 3


def answer_within(lease: int) -> int:
    """Return how long the product waits for an answer, in seconds: a little longer than a lease."""
    return lease + 1


def rest(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251


def free_port() -> int:
    """Return a port below the ephemeral range, so that it is still free when its process is restarted."""
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


@dataclass(frozen=True, slots=True)
class Host:
    """Where and how a part of the product runs: its Python and folder, its environment, and a command before it."""

    python: str
    folder: Path = PROJECT
    environment: dict[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()


class Product:
    """`manage.py up` (web and a cluster), a second cluster, and a second MCP server for agents."""

    def __init__(self, folder: Path, database_url: str, clock_file: Path, lease: int) -> None:
        self.folder = folder
        self.port, self.mcp_port = free_port(), free_port()
        self.log_file = folder / "product.log"
        self.log = self.log_file.open("ab")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # A Python of our own, so that a fault can take it away.
        self.home = Host(link_virtual_environment(folder / "venv"))
        self._hosts: dict[str, Host] = {}
        self.seen: set[psutil.Process] = set()
        # The service manager and a rolling restart both restart dead processes.
        self._lock = threading.Lock()
        self.commands = {
            "up": ("up", "--port", str(self.port)),
            "second": ("qcluster",),
            "mcp": ("mcp_serve", "--http", "--port", str(self.mcp_port)),
        }
        commands = shutil.copyfile(Path(__file__).with_name("commands.toml"), folder / "commands.toml")
        # Nobody else may be able to change it, whatever the checkout allows.
        commands.chmod(0o600)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CRONTY_", "NTFY_", "DATABASE_URL", "COVERAGE_", "PYTEST_"))
        } | {
            "DJANGO_SETTINGS_MODULE": "verification.faults.settings",
            "DATABASE_URL": database_url,
            "CRONTY_DATA": str(folder),
            "CRONTY_PORT": str(self.port),
            "CRONTY_ADMIN_PASSWORD": PASSWORD,
            "CRONTY_LEASE_SECONDS": str(lease),
            "CRONTY_STOP_SECONDS": "5",
            "CRONTY_OUTBOUND_ALLOW": "127.0.0.1",
            "CRONTY_OUTBOUND_TIMEOUT": str(answer_within(lease)),
            "CRONTY_AGENT_MIN_INTERVAL": "1",
            "CRONTY_MAX_ACTIVE_JOBS": "5000",
            "CRONTY_MAX_RUNS_PER_MINUTE": "0",
            "CRONTY_MAX_CREATES_PER_MINUTE": "100000",
            "CRONTY_MAX_RUNS_BY_HAND_PER_MINUTE": "100000",
            "CRONTY_MCP_CALLS_PER_MINUTE": "100000",
            "CRONTY_CATCH_UP_RUNS": "8",
            "CRONTY_LOG_LEVEL": "WARNING",
            "CRONTY_FAULTS_CLOCK": str(clock_file),
            "CRONTY_COMMANDS_FILE": str(commands),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def mcp_urls(self) -> list[str]:
        return [f"{self.url}/mcp", f"http://127.0.0.1:{self.mcp_port}/mcp"]

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start one part, as a service manager would."""
        process = self.manage(*self.commands[name], host=self._hosts.get(name), name=name)
        self.processes[name] = process
        return process

    def move(self, name: str, host: Host | None) -> None:
        """Stop one part in good order, and start it elsewhere; None means where it was at first."""
        with self._lock:
            self.remember()
            end(self.processes[name])
            self._hosts[name] = host or self.home
            self.start(name)

    def manage(
        self, *arguments: str, host: Host | None = None, name: str = "another", **more: Any
    ) -> subprocess.Popen[bytes]:
        host = host or self.home
        return subprocess.Popen(
            [*host.prefix, host.python, "manage.py", *arguments],
            cwd=host.folder,
            env=self.environment | {"CRONTY_FAULTS_HOST": name} | host.environment,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
            **more,
        )

    def keep_running(self) -> list[str]:
        """Restart top-level processes that have died, as a service manager would."""
        with self._lock:
            return self._start_dead()

    def _start_dead(self) -> list[str]:
        self.remember()
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        for name in dead:
            if name in self.commands:
                self.start(name)
        return dead

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Kill everything, and start nothing while the block runs."""
        with self._lock:
            self.remember()
            for process in self.processes.values():
                process.kill()
                process.wait()
            yield

    def remember(self) -> None:
        """Remember the processes of the product, to find any that are left over at the end."""
        for process in self.processes.values():
            self.seen |= set(family_of(process.pid))

    def leaders(self) -> dict[str, int]:
        """Return the leader of each cluster; a cluster that is being restarted has none."""
        found = {}
        if (up := self._child_of_up("qcluster")) is not None:
            found["up"] = up.pid
        if self.processes["second"].poll() is None:
            found["second"] = self.processes["second"].pid
        return found

    def web(self) -> psutil.Process | None:
        return self._child_of_up(" web ")

    def _child_of_up(self, word: str) -> psutil.Process | None:
        with suppress(psutil.Error):
            for child in psutil.Process(self.processes["up"].pid).children():
                if word in f"{' '.join(child.cmdline())} ":
                    return child
        return None

    def member(self, leader: int, role: str) -> psutil.Process | None:
        """Return a process of a cluster by its role, or None if there is none at the moment."""
        with suppress(psutil.Error, IndexError):
            if role == "leader":
                return psutil.Process(leader)
            if role == "sentinel":
                return psutil.Process(leader).children()[0]
            word = {"busy": " processing "}.get(role, f" {role}")
            return next((one for one in family_of(leader) if word in _title(one)), None)
        return None

    def workers(self, leader: int) -> list[psutil.Process]:
        return [one for one in family_of(leader) if any(word in _title(one) for word in WORKER_TITLES)]

    def cluster(self, leader: int) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return [psutil.Process(leader), *family_of(leader)]
        return []

    def all_processes(self) -> list[psutil.Process]:
        found = []
        for process in self.processes.values():
            with suppress(psutil.Error):
                found += [psutil.Process(process.pid), *family_of(process.pid)]
        return found

    def stop(self) -> list[str]:
        """Stop everything in order; return and kill the processes that are still there after that."""
        self.remember()
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                self.seen.add(psutil.Process(process.pid))
        until = time.monotonic() + TIME_TO_DIE
        while any(map(_is_alive, self.seen)) and time.monotonic() < until:
            rest(0.1)
        orphans = []
        for process in filter(_is_alive, self.seen):
            with suppress(psutil.Error):
                orphans.append(f"{process.pid} {_title(process)[-60:]}")
                process.kill()
        self.processes.clear()
        self.seen.clear()
        self.log.close()
        return orphans


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a process in good order, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def link_virtual_environment(folder: Path) -> str:
    """Make a virtual environment that consists of links to the one of this process; return its Python."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    (folder / "pyvenv.cfg").write_text((Path(sys.prefix) / "pyvenv.cfg").read_text())
    python = folder / "bin" / "python"
    python.symlink_to(Path(sys.executable).resolve())
    return str(python)


def family_of(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _title(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
