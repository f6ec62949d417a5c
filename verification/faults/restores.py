"""Fault of a restored backup: a small installation of its own loses what it did since, and must not repeat it."""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from verification.faults.clients import Agent
from verification.faults.product import PROJECT, TOKEN_USER, Host, end, family_of, free_port, rest
from verification.faults.sink import Sink
from verification.faults.world import World, answers

# One-time jobs that run before the backup, and between it and the restore.
JOBS = 8
PATIENCE = 60.0


def restore(world: World, dice: random.Random, length: float) -> str:
    """Back up, go on, stop, restore without the slots since, and start again: nothing may be delivered twice."""
    with _installation(world, dice) as here:
        here.start()
        agent = Agent(
            f"http://127.0.0.1:{here.port}/mcp", here.run("issue_token", "--user", TOKEN_USER, "--name", "x")
        )
        now = time.time()
        # Late enough for a slow machine to have stored all of them, and to back up in between.
        before, after = now + 6 + 2 * world.pace, now + 14 + 6 * world.pace
        for number in range(JOBS):
            here.create(agent, f"before-{number}", "once", run_at=_text(before))
            here.create(agent, f"after-{number}", "once", run_at=_text(after))
        here.create(agent, "always", "interval", seconds=2)
        agent.close()
        here.wait(lambda: here.received("before-") == JOBS)
        here.back_up()
        here.wait(lambda: here.received("after-") == JOBS)
        here.stop()
        said = here.run("restore", str(here.backup), "--slots", "skip", "--yes")
        restored_at = time.time()
        here.start()
        here.wait(lambda: any(one.at > restored_at for one in here.sink.deliveries))
        rest(3.0)
        if again := sum(one.verdict == "repeated" for one in here.sink.deliveries):
            world.problem = f"{again} of {len(here.sink.deliveries)} deliveries were repeated"
    return said.splitlines()[0]


def _text(moment: float) -> str:
    return datetime.fromtimestamp(int(moment), UTC).isoformat()


@dataclass
class Installation:
    """A product with one host, its own database and its own target."""

    world: World
    host: Host
    folder: Path
    database: str
    sink: Sink = field(default_factory=Sink)
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def backup(self) -> Path:
        return self.folder / "backup"

    def start(self) -> None:
        self.process = self.world.product.manage("up", "--port", str(self.port), host=self.host)
        self.wait(lambda: answers(f"http://127.0.0.1:{self.port}/healthz"))

    def stop(self) -> None:
        if self.process is None:
            return
        self.world.product.seen |= set(family_of(self.process.pid))
        end(self.process)
        self.process = None

    def create(self, agent: Agent, name: str, trigger: str, **config: object) -> None:
        answer = agent.call(
            "schedule_job",
            name=name,
            task="webhook",
            kwargs={"url": f"http://127.0.0.1:{self.sink.port}/well/{name}"},
            trigger_type=trigger,
            trigger_config=config,
        )
        if answer.outcome != "acknowledged":
            raise RuntimeError(f"could not create {name}: {answer.words}")
        self.ids[answer.body["job_id"]] = name

    def received(self, prefix: str) -> int:
        """Count the jobs with this prefix that the target has accepted."""
        return sum(
            one.verdict == "accepted" and self.ids.get(one.job_id, "").startswith(prefix)
            for one in self.sink.deliveries
        )

    def back_up(self) -> None:
        if not self.world.postgres:
            self.run("backup", str(self.backup))
            return
        program = self.world.postgres.programs / "pg_dump"
        url = self.host.environment["DATABASE_URL"].replace("postgres://", "postgresql://")
        subprocess.run([program, "--format=custom", f"--file={self.backup}", url], check=True)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.host.python, "manage.py", *arguments],
            cwd=PROJECT,
            env=self.world.product.environment | dict(self.host.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}")
        return done.stdout.strip()

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > until or (self.process and self.process.poll() is not None):
                raise RuntimeError("the installation to be restored did not get on")
            rest(0.1)


@contextmanager
def _installation(world: World, dice: random.Random) -> Iterator[Installation]:
    name = f"restored_{dice.randrange(10**9)}"
    folder = world.folder / name
    folder.mkdir()
    url = f"sqlite:///{folder / 'cronty.sqlite3'}"
    path = os.environ.get("PATH", "")
    if world.postgres:
        url = world.postgres.url.removesuffix("/postgres") + f"/{name}"
        path = f"{world.postgres.programs}{os.pathsep}{path}"
        _execute(f"CREATE DATABASE {name}")
    environment = {"DATABASE_URL": url, "CRONTY_DATA": str(folder), "PATH": path}
    here = Installation(world, Host(world.product.home.python, environment=environment), folder, name)
    world.loop.do(here.sink.start())
    try:
        yield here
    except RuntimeError as error:
        world.problem = str(error)
        raise
    finally:
        here.stop()
        for database in _databases(name) if world.postgres else ():
            _execute(f"DROP DATABASE {database} WITH (FORCE)")


def _execute(statement: str) -> None:
    from django.db import connection  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute(statement)


def _databases(prefix: str) -> list[str]:
    """Return the database and the one that a restore kept."""
    from django.db import connection  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{prefix}%"])
        return [name for (name,) in cursor.fetchall()]
