"""Faults that hit a cluster while it holds claims: kills inside a claim, and workers that wake up too late."""

import random
import time
from contextlib import suppress
from datetime import timedelta

import psutil

from verification.faults.product import rest
from verification.faults.world import World

# How often a pusher is killed in one fault; a claim takes milliseconds, and most kills miss it.
KILLS = 5
# Seconds that each message to and from PostgreSQL takes meanwhile, so that a claim takes longer.
DELAY = 0.03


def kill_claiming(world: World, dice: random.Random, length: float) -> str:
    """Kill pushers at moments when slots fall due, which is when they claim."""
    if world.database_wire:
        world.database_wire.delay = DELAY
    longest = 16 * DELAY if world.database_wire else 0.02
    killed = 0
    for _ in range(KILLS):
        leader = dice.choice(list(world.product.leaders().values()))
        pusher = _pusher(world, leader)
        wait_for_due_slots()
        rest(dice.uniform(0, longest))
        if pusher:
            with suppress(psutil.Error):
                pusher.kill()
                killed += 1
    if world.database_wire:
        world.database_wire.delay = 0.0
    return f"{killed} kills"


def _pusher(world: World, leader: int) -> psutil.Process | None:
    """Return the pusher of a cluster; django-q2 starts a new one about a second after it died."""
    until = time.monotonic() + 4
    while time.monotonic() < until:
        if found := world.product.member(leader, "pusher"):
            return found
        rest(0.02)
    return None


def wait_for_due_slots() -> None:
    """Wait until the next moment at which a job falls due."""
    from schedules import clock  # noqa: PLC0415
    from schedules.models import Job  # noqa: PLC0415

    now = clock.now()
    following = Job.objects.armed().filter(next_run_at__gt=now + timedelta(seconds=0.05))
    at = following.order_by("next_run_at").values_list("next_run_at", flat=True).first()
    if at:
        rest(min(3.0, max(0.0, (at - clock.now()).total_seconds())))


def freeze_workers(world: World, dice: random.Random, length: float) -> str:
    """Freeze all workers, then the rest of one cluster; wake that one while the other holds its claims.

    Its workers find packages in their queue whose claims have expired and belong to the other cluster by now.
    """
    leaders = list(world.product.leaders().values())
    dice.shuffle(leaders)
    first, *others = leaders
    workers = [member for leader in others for member in world.product.workers(leader)]
    family = world.product.cluster(first)
    _suspend([*workers, *world.product.workers(first)])
    world.strike()
    # Meanwhile the pushers claim, and the claims stay in the queues.
    rest(1.5)
    _suspend(family)
    rest(world.lease + 1.5 + dice.uniform(0, 1) * length)
    _resume(family)
    rest(0.8)
    _resume(workers)
    return f"{len(family)} processes, {len(workers)} workers"


def _suspend(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.suspend()


def _resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.resume()
