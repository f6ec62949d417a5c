"""Faults that stop a part of the product in good order: under load, for a deployment, or for a restart."""

import random
import signal
import time
from contextlib import suppress
from datetime import timedelta

import psutil

from verification.faults.product import rest
from verification.faults.world import World

# Plain functions that work for longer than a stop waits, and coroutines whose target answers within it.
LONG, LONG_SECONDS, SHORT = 2, 8, 20


def stop_under_load(world: World, dice: random.Random, length: float) -> str:
    """Stop a cluster with SIGTERM while it runs short and long tasks: it must hold none of them when it has ended."""
    name, leader = dice.choice(list(world.product.leaders().items()))
    _create_load(world)
    until = time.monotonic() + 5
    while time.monotonic() < until and world.held_by(leader) < LONG:
        rest(0.05)
    in_hand = world.held_by(leader)
    world.strike()
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


def _create_load(world: World) -> None:
    """Create one-time jobs that are due now."""
    from django.contrib.auth.models import User  # noqa: PLC0415

    from schedules import clock  # noqa: PLC0415
    from schedules.models import Job  # noqa: PLC0415
    from schedules.models.jobs import new_public_id  # noqa: PLC0415

    now, owner = clock.now(), User.objects.get(username="admin")
    tasks = [("faults.deliver", {"seconds": LONG_SECONDS}, "well")] * LONG + [("webhook", {}, "slow")] * SHORT
    Job.objects.bulk_create(
        Job(
            owner=owner,
            public_id=new_public_id("job", now),
            name=f"load {number}",
            task=task,
            kwargs={"url": f"{world.target}/{folder}/load-{number}", **more},
            trigger_type="once",
            run_at=now,
            next_run_at=now,
            timezone="UTC",
            created_at=now - timedelta(seconds=1),
            updated_at=now,
        )
        for number, (task, more, folder) in enumerate(tasks)
    )
