"""Faults in which locks are held for too long: by a person, or by a process that is frozen inside its transaction."""

import random
import sqlite3
import time
import urllib.error
import urllib.request
from contextlib import suppress

import psutil

from verification.faults.claims import DELAY, find_pusher, resume, suspend, wait_for_due_slots
from verification.faults.product import rest
from verification.faults.stops import create_load, has_ended
from verification.faults.world import World

HELD_ROW = 45.0
HELD_TABLE = 20.0
# Longer than others may wait for the jobs of a frozen host.
FROZEN = 18.0
# After this long, the watchdog has failed, and the fault ends.
STUCK = 45.0


def lock_database(world: World, dice: random.Random, length: float) -> str:
    """Hold a write lock: the only one on SQLite, those of the two tables on PostgreSQL."""
    seconds = dice.choice([4, 8, 20]) * length
    if world.postgres:
        from django.db import connection, transaction  # noqa: PLC0415

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE schedules_job, schedules_execution IN EXCLUSIVE MODE")
            world.strike()
            rest(seconds)
    else:
        holder = sqlite3.connect(world.sqlite_file, timeout=20, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        rest(seconds)
        holder.execute("ROLLBACK")
        holder.close()
    return f"{seconds:.0f} s"


def hold_row(world: World, dice: random.Random, length: float) -> str:
    """Lock the row of one job, as a person's long transaction would: no other job may suffer."""
    from django.db import transaction  # noqa: PLC0415

    from schedules.models import Execution, Job  # noqa: PLC0415

    seconds, told = HELD_ROW * length, False
    running = Execution.objects.filter(status=Execution.Status.RUNNING, cause="schedule", task="webhook")
    until = time.monotonic() + 10
    # A job with a run under way: its outcome cannot be written meanwhile.
    while not (jobs := list(running.values_list("job_id", flat=True))) and time.monotonic() < until:
        rest(0.02)
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk__in=jobs[:1]).first()
        if job is None:
            return "no job"
        world.strike(job.public_id)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            told = told or not _is_ready(world)
            rest(0.5)
    if not told:
        world.problem = f"/readyz said nothing in {seconds:.0f} s"
    return f"{job.public_id}, {seconds:.0f} s"


def _is_ready(world: World) -> bool:
    with suppress(OSError):
        try:
            urllib.request.urlopen(f"{world.product.url}/readyz", timeout=3).close()
        except urllib.error.HTTPError as error:
            error.close()
            return False
    return True


def hold_table(world: World, dice: random.Random, length: float) -> str:
    """Lock one table completely, as a migration would."""
    from django.db import connection, transaction  # noqa: PLC0415

    table = dice.choice(["schedules_job", "schedules_execution", "schedules_cluster"])
    seconds = HELD_TABLE * length
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        world.strike()
        rest(seconds)
    return f"{table}, {seconds:.0f} s"


def freeze_in_claim(world: World, dice: random.Random, length: float) -> str:
    """Freeze a whole cluster inside its claim, as a host that hangs: others must run its jobs meanwhile."""
    name, leader = dice.choice(list(world.product.leaders().items()))
    pusher = _suspend_in_transaction(world, leader, dice)
    if pusher is None:
        return "no transaction was met"
    family = world.product.cluster(leader)
    suspend(family)
    world.freeze(name)
    rest(FROZEN)
    resume(family)
    return f"{len(family)} processes"


def stick_pusher(world: World, dice: random.Random, length: float) -> str:
    """Freeze only the pusher inside its transaction, until its leader notices that and kills it."""
    leader = dice.choice(list(world.product.leaders().values()))
    pusher = _suspend_in_transaction(world, leader, dice)
    return _wait_until_killed(world, pusher) if pusher else "no transaction was met"


def stick_worker(world: World, dice: random.Random, length: float) -> str:
    """Freeze a worker while it holds SQLite's write lock, until its leader notices that and kills it."""
    from schedules.worker.heartbeat_watch import holder  # noqa: PLC0415

    leader = dice.choice(list(world.product.leaders().values()))
    until = time.monotonic() + 25
    while time.monotonic() < until:
        create_load(world, long=0, short=60)
        workers = {process.pid: process for process in world.product.workers(leader)}
        looked = time.monotonic()
        while time.monotonic() < looked + 2:
            if found := workers.get(holder(world.sqlite_file) or 0):
                suspend([found])
                if _is_transaction_open(world):
                    return _wait_until_killed(world, found)
                resume([found])
    return "no transaction was met"


def _wait_until_killed(world: World, process: psutil.Process) -> str:
    world.strike()
    began = time.monotonic()
    while time.monotonic() < began + STUCK and not has_ended(process.pid):
        rest(0.1)
    resume([process])
    return f"killed after {time.monotonic() - began:.1f} s"


def _suspend_in_transaction(world: World, leader: int, dice: random.Random) -> psutil.Process | None:
    """Suspend the pusher of a cluster while its transaction is open; return None if that never succeeds."""
    longest = 16 * DELAY if world.database_wire else 0.03
    until = time.monotonic() + 25
    while time.monotonic() < until:
        pusher = find_pusher(world, leader)
        if pusher is None:
            continue
        if world.database_wire:
            world.database_wire.delay = DELAY
        else:
            # A claim of many jobs takes longer.
            create_load(world, long=0, short=60)
        wait_for_due_slots()
        rest(dice.uniform(0, longest))
        suspend([pusher])
        if world.database_wire:
            world.database_wire.delay = 0.0
        if _is_transaction_open(world):
            return pusher
        resume([pusher])
    return None


def _is_transaction_open(world: World) -> bool:
    """Return whether a transaction stays open although nobody else works in it."""
    if world.postgres:
        before = _idle_transactions()
        rest(0.3)
        return bool(before & _idle_transactions())
    for _ in range(2):
        probe = sqlite3.connect(world.sqlite_file, timeout=0.3, isolation_level=None)
        try:
            probe.execute("BEGIN IMMEDIATE")
            probe.execute("ROLLBACK")
        except sqlite3.OperationalError:
            continue
        else:
            return False
        finally:
            probe.close()
    return True


def _idle_transactions() -> set[int]:
    from django.db import connection  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in cursor.fetchall()}
