"""A laboratory of hosts: PostgreSQL and clusters, each in its own network namespace where the machine allows that."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.postgres import Postgres
from verification.bench import recorder
from verification.faults.hosts import ip, namespace, no_namespaces
from verification.hosts import tasks

PROJECT = Path(__file__).resolve().parent.parent.parent
WORKERS = 2
TASK = "hosts.record"


class Call(NamedTuple):
    """One call of the task, by its own record."""

    at: float
    host: str
    attempt: int
    key: str


@dataclass(slots=True)
class Host:
    """A host: its name, how to reach the database from it, and its cluster while that runs."""

    name: str
    database_url: str
    prefix: Sequence[str] = ()
    link: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def cut(self) -> None:
        """Cut its only link, without a word to either end."""
        ip("link", "set", self.link, "down")

    def reconnect(self) -> None:
        ip("link", "set", self.link, "up")


class Lab:
    """A database with all migrations, and hosts that share it."""

    def __init__(self, folder: Path, server: Postgres, hosts: list[Host]) -> None:
        self.folder = folder
        self.server = server
        self.hosts = hosts

    @contextmanager
    def clusters(self, count: int) -> Iterator[list[Host]]:
        """Run a cluster on each of the first hosts, and stop all of them in good order."""
        hosts = self.hosts[:count]
        try:
            for host in hosts:
                host.process = subprocess.Popen(
                    [*host.prefix, sys.executable, "manage.py", "qcluster"],
                    cwd=PROJECT,
                    env=os.environ | {"DATABASE_URL": host.database_url, tasks.HOST: host.name},
                )
            self._wait_for_workers(hosts)
            yield hosts
        finally:
            for host in hosts:
                if host.process:
                    host.process.send_signal(signal.SIGTERM)
            for host in hosts:
                if host.process:
                    _end(host.process)
                    host.process = None

    def _wait_for_workers(self, hosts: list[Host], seconds: float = 60) -> None:
        from django.db.models import F

        from schedules.models import Cluster

        pids = [host.process.pid for host in hosts if host.process]
        ready = Cluster.objects.filter(pid__in=pids, stopped_at=None, probe_returned_at__gt=F("started_at"))
        wait_until(lambda: ready.count() == len(hosts), seconds, "the clusters are not ready")

    def records(self) -> list[Call]:
        """Return the calls of the task so far, oldest first."""
        found = ((row.at / 1e9, *row.label.split("/")) for row in recorder.read(self.folder))
        return sorted(Call(at, host, int(attempt), key) for at, host, attempt, key in found)

    def forget(self) -> None:
        """Delete all jobs, runs and records; the clusters must be stopped."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE schedules_execution, schedules_event, schedules_job, schedules_cluster")
            cursor.execute("VACUUM ANALYZE")
        recorder.forget(self.folder)

    def connections(self) -> int:
        """Return how many connections the clusters have."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return int(cursor.fetchone()[0])

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the processor time that the database's processes and the clusters' have used."""
        clusters = [host.process.pid for host in self.hosts if host.process]
        return _cpu_of([self.server.process.pid] if self.server.process else []), _cpu_of(clusters)


@contextmanager
def lab(count: int) -> Iterator[Lab]:
    """Make a database and hosts; remove all of it at the end, also after an error."""
    folder = Path(tempfile.mkdtemp(prefix="cronty-hosts-"))
    try:
        with ExitStack() as stack:
            links: list[tuple[str, str]] = []
            if reason := no_namespaces():
                print(f"# hosts are processes on loopback: {reason}")
            else:
                links = [stack.enter_context(namespace(number)) for number in range(count)]
            addresses = [address for _, address in links]
            server = stack.enter_context(Postgres(is_durable=True, addresses=addresses))
            hosts = [Host(f"host{number + 1}", server.url) for number in range(count)]
            for host, (name, address) in zip(hosts, links, strict=False):
                host.link, host.prefix = name, ("ip", "netns", "exec", name)
                host.database_url = server.url.replace("127.0.0.1", address)
            _prepare(folder, server.url)
            yield Lab(folder, server, hosts)
            from django.db import connections

            connections.close_all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(folder: Path, database_url: str) -> None:
    """Set Django up in this process and in those that it starts, and migrate."""
    os.environ |= {
        recorder.FOLDER: str(folder),
        "CRONTY_DATA": str(folder),
        "CRONTY_WORKERS": str(WORKERS),
        "CRONTY_LOG_LEVEL": "ERROR",
        "CRONTY_SECRET_KEY": "secret-key-of-the-laboratory-of-hosts-which-is-long-enough",
        "DATABASE_URL": database_url,
        "DJANGO_SETTINGS_MODULE": "verification.hosts.settings",
    }
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def make_jobs(moments: Iterable[datetime], seconds: float = 0) -> None:
    """Create a one-time job for each moment, whose task takes that long."""
    from django.contrib.auth.models import User

    from schedules import clock
    from schedules.models import Job, Profile

    owner, _ = User.objects.get_or_create(username="hosts")
    Profile.objects.get_or_create(user=owner)
    now = clock.now()
    Job.objects.bulk_create(
        (
            Job(
                owner=owner,
                public_id=f"hosts_{now:%H%M%S%f}_{number}",
                name=f"hosts {number}",
                task=TASK,
                kwargs={"seconds": seconds},
                trigger_type="once",
                run_at=at,
                next_run_at=at,
                created_at=now,
                updated_at=now,
            )
            for number, at in enumerate(moments)
        ),
        batch_size=1000,
    )


def spread(begin: datetime, rate: float, seconds: float) -> list[datetime]:
    """Return moments at an even rate."""
    return [begin + timedelta(seconds=number / rate) for number in range(int(rate * seconds))]


def wait_until_settled(seconds: float) -> None:
    """Wait until no job is armed and no run is live."""
    from schedules.models import Execution, Job

    # The system jobs stay armed.
    armed, live = Job.objects.armed().filter(task=TASK), Execution.objects.live().filter(task=TASK)
    wait_until(
        lambda: not (armed.exists() or live.exists()),
        seconds,
        "some runs are not settled",
    )


def wait_until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Wait until a condition is true; end the program with `otherwise` if that takes too long."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(otherwise)
        time.sleep(0.1)


def _cpu_of(pids: Iterable[int]) -> float:
    total = 0.0
    for pid in pids:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:2])
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
