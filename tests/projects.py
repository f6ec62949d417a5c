"""Django projects in separate processes, without the environment of the tests."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.forks import python
from tests.postgres import patient
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Project:
    """A folder with a manage.py, and the environment variables of its processes."""

    folder: Path
    variables: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return inherited | dict(self.variables)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*python(), "manage.py", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def manage(self, *arguments: str) -> str:
        """Run a command that must succeed, and return what it printed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def shell(self, code: str) -> str:
        return self.manage("shell", "--no-imports", "--command", code)

    @contextmanager
    def running(self, *arguments: str, output: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command for the length of a `with` block; its standard output may go to a file."""
        with output.open("wb") if output else nullcontext() as file:
            process = subprocess.Popen(
                [*python(), "manage.py", *arguments], cwd=self.folder, env=self.environment, stdout=file
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def empty_database(folder: Path) -> Iterator[str]:
    """Yield the address of an empty database, on the kind of server that the tests run on."""
    server = os.environ.get("DATABASE_URL", "")
    if not server.startswith("postgres"):
        yield f"sqlite:///{folder / 'empty.sqlite3'}"
        return
    name = f"empty_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield patient(f"{server.rpartition('/')[0]}/{name}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
