"""Faults that hit a cluster while it holds claims: kills inside a claim, and workers that wake up too late."""

import random
import threading
import time
from contextlib import suppress
from datetime import timedelta

import psutil

from verification.faults.product import rest
from verification.faults.sink import Proxy
from verification.faults.stops import LOAD, create_load
from verification.faults.world import World

# How often a pusher is killed in one fault.
KILLS = 5
# Seconds that each message to and from PostgreSQL takes meanwhile, so that a claim takes longer.
DELAY = 0.03


def kill_claiming(world: World, dice: random.Random, length: float) -> str:
    """Kill pushers at moments when slots fall due, which is when they claim; on PostgreSQL, as a claim commits."""
    killed = 0
    for _ in range(KILLS):
        leader = dice.choice(list(world.product.leaders().values()))
        pusher = find_pusher(world, leader)
        if pusher is None:
            continue
        wait_for_due_slots()
        if world.database_wire:
            killed += _kill_at_commit(world.database_wire, pusher)
        else:
            rest(dice.uniform(0, 0.02))
            killed += _kill(pusher)
    return f"{killed} kills"


def _kill_at_commit(wire: Proxy, pusher: psutil.Process) -> bool:
    """Kill a process when it has sent the COMMIT of a claim and before it has the answer."""
    is_dead = threading.Event()
    ports: set[int] = set()
    with suppress(psutil.Error):
        ports = {one.laddr.port for one in pusher.net_connections("tcp") if one.laddr}

    def kill(port: int) -> None:
        if port in ports and _kill(pusher):
            is_dead.set()

    wire.delay, wire.on_commit = DELAY, kill
    try:
        return is_dead.wait(3)
    finally:
        wire.delay, wire.on_commit = 0.0, None


def _kill(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        process.kill()
        return True
    return False


def find_pusher(world: World, leader: int) -> psutil.Process | None:
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
    """Freeze a cluster when its claims are still in its queue, and wake it when the other cluster holds them.

    The workers of the other cluster are frozen, too, so that it has not started them by then.
    """
    leaders = list(world.product.leaders().values())
    if len(leaders) < 2:
        return "only one cluster"
    dice.shuffle(leaders)
    first, other = leaders
    workers, pusher = world.product.workers(other), find_pusher(world, other)
    pushers = [pusher] if pusher else []
    family = world.product.cluster(first)
    suspend([*workers, *pushers, *world.product.workers(first)])
    world.strike()
    create_load(world, long=0, short=20)
    _wait_until_held(world, first, 2.0)
    suspend(family)
    resume(pushers)
    # Its leader would restart the other cluster if its workers were frozen for much longer.
    taken_over = _wait_until_held(world, other, world.lease + 3.5)
    resume(family)
    rest(0.8)
    resume(workers)
    return f"{taken_over} claims taken over"


def _wait_until_held(world: World, leader: int, seconds: float, count: int = 10) -> int:
    until = time.monotonic() + seconds
    while time.monotonic() < until and world.held_by(leader, LOAD) < count:
        rest(0.05)
    return world.held_by(leader, LOAD)


def suspend(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.suspend()


def resume(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.resume()
