"""Faults that stop a part of the product in good order: under load, for a deployment, or for a restart."""

import os
import random
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from verification.faults.product import (
    PROJECT,
    Host,
    end,
    family_of,
    free_port,
    link_virtual_environment,
    rest,
)
from verification.faults.world import World, answers, create_due_jobs

# Plain functions that work for longer than a stop waits, and coroutines whose target answers within it.
LONG, LONG_SECONDS, SHORT = 2, 8, 20
# How the names of these jobs begin.
LOAD = "load"


def stop_under_load(world: World, dice: random.Random, length: float) -> str:
    """Stop a cluster with SIGTERM while it runs short and long tasks: it must hold none of them when it has ended."""
    create_load(world)
    in_hand, name, leader = 0, "", 0
    until = time.monotonic() + 5
    while time.monotonic() < until and in_hand < SHORT:
        # One cluster claims most of it.
        in_hand, name, leader = max(
            (world.held_by(pid), name, pid) for name, pid in world.product.leaders().items()
        )
        rest(0.05)
    world.strike(host=name)
    with suppress(psutil.Error):
        psutil.Process(leader).send_signal(signal.SIGTERM)
    until = time.monotonic() + 30
    while time.monotonic() < until and not has_ended(leader):
        rest(0.02)
    if left := world.held_by(leader):
        world.problem = f"{left} runs were still held by the cluster when it had stopped"
    return f"{name}, {in_hand} in hand"


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def create_load(world: World, *, long: int = LONG, short: int = SHORT) -> None:
    """Create one-time jobs that are due now: plain functions that take long, and coroutines."""
    tasks = [("faults.deliver", {"seconds": LONG_SECONDS}, "well")] * long + [("webhook", {}, "slow")] * short
    create_due_jobs(
        *(
            {
                "name": f"{LOAD} {number}",
                "task": task,
                "kwargs": {"url": f"{world.target}/{folder}/load-{number}", **more},
            }
            for number, (task, more, folder) in enumerate(tasks)
        )
    )


def deploy(world: World, dice: random.Random, length: float) -> str:
    """Replace code and packages under a running cluster, then restart it, as a deployment does."""
    current, following, previous = (
        world.folder / name for name in ("release", "release-next", "release-old")
    )
    try:
        for folder in (current, following):
            _build_release(folder)
        host = Host(str(current / "venv" / "bin" / "python"), current / "code")
        world.product.move("second", host)
        world.wait_until_recovered()
        world.strike(host="second")
        current.rename(previous)
        following.rename(current)
        shutil.rmtree(previous)
        rest(3 + 5 * length)
        world.product.move("second", host)
        world.wait_until_recovered()
    finally:
        world.product.move("second", None)
        for folder in (current, following, previous):
            shutil.rmtree(folder, ignore_errors=True)
    return ""


def _build_release(folder: Path) -> None:
    """Copy the code and the packages, as links where the file system allows it."""
    ignored = shutil.ignore_patterns(".*", "data", "node_modules", "__pycache__", "*.sqlite3*")
    shutil.copytree(PROJECT, folder / "code", ignore=ignored, copy_function=_link)
    link_virtual_environment(folder / "venv")
    (folder / "venv" / "lib").unlink()
    shutil.copytree(Path(sys.prefix) / "lib", folder / "venv" / "lib", symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def refuse_spawns(world: World, dice: random.Random, length: float) -> str:
    """Take Python away and kill the children of `up`: it must be able to start them again."""
    python = Path(world.product.home.python)
    up = world.product.processes["up"]
    python.rename(python.with_name("python.away"))
    try:
        world.strike(host="up")
        for victim in family_of(up.pid):
            with suppress(psutil.Error):
                victim.kill()
        rest(3 + 10 * length)
        if up.poll() is not None:
            world.problem = f"`up` ended with status {up.returncode}"
    finally:
        python.with_name("python.away").rename(python)
    return ""


def start_on_empty_database(world: World, dice: random.Random, length: float) -> str:
    """Start the product twice at once on an empty database, as two hosts would: both must come up."""
    from django.db import connection  # noqa: PLC0415

    assert world.postgres
    name = f"first_{dice.randrange(10**9)}"
    url = world.postgres.url.removesuffix("/postgres") + f"/{name}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    host = Host(world.product.home.python, environment={"DATABASE_URL": url})
    ports = [free_port() for _ in range(2)]
    started = [world.product.manage("up", "--port", str(port), host=host) for port in ports]
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            up = sum(answers(f"http://127.0.0.1:{port}/healthz") for port in ports)
            ended = [process.returncode for process in started if process.poll() is not None]
            if up == len(started) or ended:
                break
            rest(0.3)
        if ended:
            world.problem = f"one of two first starts ended with status {ended[0]}"
        elif up < len(started):
            world.problem = f"only {up} of two first starts answered"
    finally:
        for process in started:
            world.product.seen |= set(family_of(process.pid))
            process.terminate()
        for process in started:
            end(process)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    return ""
