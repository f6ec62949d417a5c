"""Harness of the benchmarks: a database, a cluster and due jobs, on loopback, bounded and cleaned up."""

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from verification.bench import recorder

PROJECT = Path(__file__).resolve().parent.parent.parent


def prepare(folder: Path | None = None) -> Path:
    """Point Django at a temporary data folder; DATABASE_URL, if set, still selects the database."""
    data = folder or Path(tempfile.mkdtemp(prefix="cronty-bench-"))
    os.environ |= {
        "CRONTY_DATA": str(data),
        recorder.FOLDER: str(data),
        "DJANGO_SETTINGS_MODULE": "verification.bench.settings",
        "CRONTY_LOG_LEVEL": "ERROR",
        "CRONTY_OUTBOUND_ALLOW": "127.0.0.1",
    }
    sys.path.insert(0, str(PROJECT))
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    return data


def database_name() -> str:
    from django.db import connection

    return connection.vendor


@contextmanager
def cluster(workers: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """Run one real cluster, and stop it cleanly."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "qcluster"],
        cwd=PROJECT,
        env=os.environ | {"CRONTY_WORKERS": str(workers)},
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)


@contextmanager
def web() -> Iterator[int]:
    """Serve the pages, and wait until they answer; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen(
        # As `manage.py up` starts it.
        [
            sys.executable,
            "manage.py",
            "web",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--with-parent",
            str(os.getpid()),
        ],
        cwd=PROJECT,
        env=os.environ | {"CRONTY_URL": f"http://127.0.0.1:{port}"},
    )
    try:
        until = time.monotonic() + 30
        while not _answers(port):
            assert time.monotonic() < until, "the pages did not come up"
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def web_process() -> psutil.Process:
    """Return the process that serves the pages."""
    family = psutil.Process().children(recursive=True)
    return next(process for process in family if {"web", "--with-parent"} <= set(process.cmdline()))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def slow_server(seconds: float = 0.1) -> Iterator[str]:
    """Run a server that takes so long for a request, and send notifications to it; yield its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "verification.bench.slow_server", str(seconds)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout
        os.environ["NTFY_URL"] = f"http://127.0.0.1:{int(server.stdout.readline())}"
        yield os.environ["NTFY_URL"]
    finally:
        server.kill()
        server.wait()


def make_idle_jobs(count: int) -> None:
    """Fill the table with jobs that are due in a year, by copying one inside the database."""
    from django.db import connection

    from schedules import clock
    from schedules.models import Job

    make_jobs([clock.now() + timedelta(days=365)], "bench.coroutine")
    columns = [field.column for field in Job._meta.concrete_fields if field.column not in ("id", "public_id")]
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) "
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {Job._meta.db_table} (public_id, {', '.join(columns)}) {numbers} "
            f"SELECT 'idle_' || i, {', '.join(columns)} FROM {Job._meta.db_table}, n WHERE name = 'bench 0'",
            [count],
        )
        cursor.execute("ANALYZE")


def wait_for_worker(seconds: float = 30) -> None:
    from schedules.models import Cluster

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        row = Cluster.objects.filter(stopped_at=None).first()
        if row and row.probe_returned_at > row.started_at:
            return
        time.sleep(0.05)
    raise SystemExit("no worker came up")


def make_jobs(moments: Sequence[Any], task: str, **fields: Any) -> None:
    """Create one-time jobs."""
    _create([{"trigger_type": "once", "run_at": at, "next_run_at": at} for at in moments], task, fields)


def make_interval_jobs(first: Sequence[Any], every: timedelta, lasting: timedelta, task: str) -> None:
    """Create jobs that fire again and again for a while, each from its own first moment on."""
    common = {"trigger_type": "interval", "every": every}
    _create(
        [common | {"anchor_at": at, "next_run_at": at, "ends_at": at + lasting} for at in first], task, {}
    )


def fire_steadily(rate: int, seconds: int, task: str) -> None:
    """Let jobs fire at a rate from now on, beside what follows."""
    from schedules import clock

    if rate:
        second = timedelta(seconds=1)
        begin = clock.now() + 2 * second
        first = [begin + number * second / rate for number in range(rate)]
        make_interval_jobs(first, second, seconds * second, task)
        time.sleep(2)


def _create(schedules: Sequence[dict[str, Any]], task: str, fields: dict[str, Any]) -> None:
    from django.contrib.auth.models import User

    from schedules import clock
    from schedules.models import Job, Profile

    owner, _ = User.objects.get_or_create(username="bench")
    Profile.objects.get_or_create(user=owner)
    now = clock.now()
    stem = f"job_{time.time_ns()}"
    Job.objects.bulk_create(
        [
            Job(
                owner=owner,
                public_id=f"{stem}_{number}",
                name=f"bench {number}",
                task=task,
                created_at=now,
                updated_at=now,
                **schedule,
                **fields,
            )
            for number, schedule in enumerate(schedules)
        ],
        batch_size=500,
    )


def wait_until_settled(count: int, seconds: float = 120) -> None:
    from schedules.models import Execution

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if Execution.objects.filter(status__in=Execution.FINAL).count() >= count:
            return
        time.sleep(0.1)
    raise SystemExit(
        f"only {Execution.objects.filter(status__in=Execution.FINAL).count()} of {count} settled"
    )


def wait_until_quiet(seconds: float = 120) -> Counter[str]:
    """Wait until no job is armed and no run unfinished; return how many runs ended in which status."""
    from django.db.models import Count

    from schedules.models import Execution, Job

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not Job.objects.armed().filter(name__startswith="bench ").exists():
            statuses = Execution.objects.order_by().values_list("status").annotate(Count("pk"))
            if not Execution.objects.exclude(status__in=Execution.FINAL).exists():
                return Counter(dict(statuses))
        time.sleep(0.2)
    raise SystemExit("jobs are still armed or running")


def forget_everything() -> None:
    from schedules.models import Execution, Job

    Execution.objects.all().delete()
    Job.objects.exclude(public_id__startswith="idle_").delete()
    recorder.forget(os.environ[recorder.FOLDER])


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def show(name: str, value: float, unit: str) -> None:
    print(f"{name} {value:.4g} {unit}", flush=True)


def idle(name: str, leader: psutil.Process) -> None:
    """Measure the CPU use of the cluster while nothing is due."""
    family = [leader, *leader.children(recursive=True)]

    def busy() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in family)

    before, begin = busy(), time.monotonic()
    time.sleep(20)
    show(f"{name}_cpu", 100 * (busy() - before) / (time.monotonic() - begin), "%")
    show(f"{name}_memory", sum(process.memory_full_info().pss for process in family) / 2**20, "MB")


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def discard(data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)


def seconds_late() -> list[float]:
    """Return how late the body of each task began."""
    return recorder.seconds_late(os.environ[recorder.FOLDER])


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
