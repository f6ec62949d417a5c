"""Faults of the guard between a worker and a command: whichever of its processes is hit, nothing of the command stays."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import psutil

from verification.faults.product import family_of, rest
from verification.faults.world import World, create_due_jobs

TIMEOUT = 3
# How many seconds after the signal everything must be dead: the timeout, the time to clean up, and some to be killed in.
GONE_WITHIN = TIMEOUT + 5 + 5
# What the lines of these processes contain.
GUARD, CHILD = "/guard.py", "sleep 600"


def hit_guard(how: signal.Signals) -> Callable[[World, random.Random, float], str]:
    """Kill or freeze one of the two processes of a guard."""

    def inject(world: World, dice: random.Random, length: float) -> str:
        # It is due now, and would never end by itself.
        job = {"name": "guarded", "task": "faults-endless", "timeout": timedelta(seconds=TIMEOUT)}
        (job_id,) = create_due_jobs(job)
        guards = _find_guards(world)
        if not guards:
            return "no command was started"
        which = dice.randrange(len(guards))
        command = family_of(guards[-1].pid)
        guards[which].send_signal(how)
        world.strike(job_id)
        until = time.monotonic() + GONE_WITHIN * world.pace
        while (left := [one for one in command if _is_alive(one)]) and time.monotonic() < until:
            rest(0.05)
        if left:
            world.problem = f"{', '.join(map(_words, left))} stayed alive"
        for process in (*left, guards[which]):
            with suppress(psutil.Error):
                process.kill()
        return f"process {which + 1} of {len(guards)}, {len(command)} processes of the command"

    return inject


def _find_guards(world: World) -> list[psutil.Process]:
    """Wait until the command has started its child; return the processes of its guard, the outer one first."""
    until = time.monotonic() + 5 * world.pace
    while time.monotonic() < until:
        for one in world.product.all_processes():
            if CHILD in _words(one):
                with suppress(psutil.Error):
                    return [parent for parent in reversed(one.parents()) if GUARD in _words(parent)]
        rest(0.02)
    return []


def _words(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
