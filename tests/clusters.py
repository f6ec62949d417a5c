"""Real clusters on the test database, and their processes."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import psutil
from django.db import connection

from schedules import clock
from schedules.models import Cluster, Execution, Job
from tests.factories import JobFactory, UserFactory
from tests.forks import Fork, start
from tests.postgres import patient
from tests.waiting import PATIENCE, wait_for

Process: TypeAlias = "Fork | subprocess.Popen[bytes]"
PROJECT = Path(__file__).resolve().parent.parent


def database_url(name: str = "") -> str:
    """Return the address of the test's database, or of another on its server, for other processes."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    server = f"postgres://{values['USER']}:{values['PASSWORD']}@{values['HOST']}:{values['PORT']}"
    return patient(f"{server}/{name or values['NAME']}")


# Clusters have a lease that no slow machine uses up, unless a test is about runs whose cluster is gone.
LEASE_SECONDS = 60
SHORT_LEASE = {"CRONTY_LEASE_SECONDS": 3}
# For tests that wait for the end of a lease and in which a slow machine must not use it up before.
SHIPPED_LEASE = {"CRONTY_LEASE_SECONDS": 10}


def environment(**settings: object) -> dict[str, str]:
    return (
        os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "DATABASE_URL": database_url(),
            "CRONTY_LEASE_SECONDS": str(LEASE_SECONDS),
            "CRONTY_STOP_SECONDS": "5",
            "CRONTY_LOG_LEVEL": "ERROR",
            # The parent's coverage hook would slow every fork.
            "COVERAGE_PROCESS_START": "",
        }
        | {name: str(value) for name, value in settings.items()}
    )


def manage(*arguments: str, **settings: object) -> Process:
    return start(["manage.py", *arguments], cwd=PROJECT, env=environment(**settings))


@contextmanager
def running(*arguments: str, **settings: object) -> Iterator[Process]:
    """Run a manage.py command inside the block; then stop it, and kill leftover processes by pid."""
    process = manage(*arguments, **settings)
    try:
        yield process
    finally:
        family = family_of(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for member in family:
            if member.is_running():
                member.kill()


@contextmanager
def running_cluster(**settings: object) -> Iterator[Process]:
    """Run one cluster; wait until its first probe has returned."""
    known = set(Cluster.objects.values_list("pk", flat=True))
    with running("qcluster", **settings) as process:
        wait_for(lambda: fresh_cluster(known) is not None)
        # The nightly pruning would add a run to the ledger.
        Job.objects.filter(task="prune_history").update(next_run_at=clock.now() + timedelta(days=1))
        yield process


def fresh_cluster(known: set[int]) -> Cluster | None:
    """Find a new cluster whose probe has returned."""
    alive = Cluster.objects.exclude(pk__in=known).fresh(clock.now())
    return next((row for row in alive if row.probe_returned_at > row.started_at), None)


def make_due(count: int, task: str, *, after: float = 0.5, **kwargs: object) -> list[Job]:
    """Create one-time jobs of one person that are due in a moment."""
    owner = UserFactory()
    at = clock.now() + timedelta(seconds=after)
    # A run that a test keeps in progress must not time out.
    values = {"owner": owner, "once": True, "run_at": at, "timeout": timedelta(hours=1)}
    return [JobFactory(task=task, kwargs=kwargs, **values) for _ in range(count)]


def all_ended() -> bool:
    """Tell whether every job and every run has ended."""
    # Every cluster creates the nightly pruning job, which stays armed.
    jobs = Job.objects.exclude(task="prune_history")
    # Jobs first: a claim between the two reads adds a run and ends its job.
    return not jobs.armed().exists() and not Execution.objects.live().exists()


def family_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True) if psutil.pid_exists(pid) else []


def is_alive(process: psutil.Process) -> bool:
    """Tell whether a process still runs; a dead one stays a zombie where no init process collects orphans."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def member(leader: int, role: str) -> psutil.Process:
    """Find a process of a cluster by its role: leader, sentinel, pusher, idle or busy (worker)."""
    if role == "leader":
        return psutil.Process(leader)
    if role == "sentinel":
        return psutil.Process(leader).children()[0]
    word = {"busy": " processing "}.get(role, f" {role}")
    return next(process for process in family_of(leader) if word in title_of(process))


def title_of(process: psutil.Process) -> str:
    """Return the title of a process; nothing when it has just died."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
