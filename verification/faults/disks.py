"""Fault of a full disk, without root and without affecting the machine."""

import random
import subprocess
import time
from contextlib import suppress

import psutil

from tests.postgres import _as_nobody as as_nobody
from verification.faults.product import rest
from verification.faults.world import World


def fill_disk(world: World, dice: random.Random, length: float) -> str:
    """Prevent database files from growing, as on a full disk, without root and without affecting the machine."""
    hit: set[psutil.Process] = set()
    until = time.monotonic() + 2 + dice.uniform(1, 6) * length
    while time.monotonic() < until:
        hit |= {
            process for process in _writers(world) if process not in hit and _limit(world, process, "4096")
        }
        rest(0.1)
    for _ in range(2):
        for process in {*hit, *_writers(world)}:
            _limit(world, process, "unlimited")
        rest(0.2)
    if world.postgres and world.postgres.process and world.postgres.process.poll() is not None:
        # PostgreSQL stops in this case; an operator would free space and start it again.
        world.postgres.process = None
        world.postgres.start()
        return f"{len(hit)} processes; PostgreSQL had to be started again"
    return f"{len(hit)} processes"


def _limit(world: World, process: psutil.Process, most: str) -> bool:
    """Limit the size of files that a process writes; the server's own user can do that even where root cannot."""
    done = subprocess.run(
        ["prlimit", f"--pid={process.pid}", f"--fsize={most}:unlimited"],
        stderr=subprocess.DEVNULL,
        check=False,
        **(as_nobody() if world.postgres else {}),
    )
    return done.returncode == 0


def _writers(world: World) -> list[psutil.Process]:
    if world.postgres:
        server = world.postgres.process
        if server is None or server.poll() is not None:
            return []
        with suppress(psutil.Error):
            return psutil.Process(server.pid).children()
        return []
    return world.product.all_processes()
