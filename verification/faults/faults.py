"""Faults: each breaks the running product for a while and then undoes the damage."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from verification.faults.claims import freeze_workers, kill_claiming
from verification.faults.disks import fill_disk
from verification.faults.guards import hit_guard
from verification.faults.hosts import no_namespaces, partition, skew
from verification.faults.keys import rotate_key
from verification.faults.locks import (
    freeze_in_claim,
    hold_row,
    hold_table,
    lock_database,
    stick_pusher,
    stick_worker,
)
from verification.faults.product import end, rest
from verification.faults.restores import restore
from verification.faults.sink import Manner
from verification.faults.stops import deploy, refuse_spawns, start_on_empty_database, stop_under_load
from verification.faults.wall_clock import no_wall_clock
from verification.faults.wings import kill_all, receiver_deaf
from verification.faults.world import World, create_due_jobs

Inject = Callable[[World, random.Random, float], str]
# Factors for the duration of faults, in the long and in the short campaign.
LONG, SHORT = 1.0, 0.4
# Faults that do not affect the clusters: the product has recovered as soon as the affected part has.
BESIDE_CLUSTERS = ("receiver-", "target-", "kill-web", "kill-mcp")


def kill(role: str) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        leaders = list(world.product.leaders().items())
        name, leader = dice.choice(leaders)
        victim = _find(world, leader, role)
        if victim is None:
            return f"no {role} in {name}"
        victim.kill()
        world.strike(host=name)
        return f"{name} {victim.pid}"

    return inject


def _find(world: World, leader: int, role: str) -> psutil.Process | None:
    """Find a process by its role; take an idle worker if none is busy for a while."""
    until = time.monotonic() + 3
    while time.monotonic() < until:
        if found := world.product.member(leader, role):
            return found
        rest(0.005)
    return world.product.member(leader, "idle") if role == "busy" else None


def kill_web(world: World, dice: random.Random, length: float) -> str:
    if web := world.product.web():
        web.kill()
    return ""


def kill_top(name: str) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        process = world.product.processes[name]
        world.product.remember()
        process.kill()
        world.strike(host=name)
        process.wait()
        return str(process.pid)

    return inject


def freeze(role: str) -> Inject:
    """Suspend processes for longer than their lease, then resume them."""

    def inject(world: World, dice: random.Random, length: float) -> str:
        name, leader = dice.choice(list(world.product.leaders().items()))
        found = _find(world, leader, role) if role != "cluster" else None
        victims = world.product.cluster(leader) if role == "cluster" else [found] if found else []
        with suppress(psutil.Error):
            for victim in victims:
                victim.suspend()
        world.freeze(name)
        rest(world.lease + 1 + dice.uniform(1, 6) * length)
        for victim in victims:
            with suppress(psutil.Error):
                victim.resume()
        return f"{name}, {len(victims)} processes"

    return inject


def rolling_restart(world: World, dice: random.Random, length: float) -> str:
    """Restart the clusters one after the other with SIGTERM, as an upgrade does."""
    for leader in world.product.leaders().values():
        began_at = time.time()
        with suppress(psutil.Error):
            psutil.Process(leader).send_signal(signal.SIGTERM)
        until = time.monotonic() + 40
        while time.monotonic() < until and (psutil.pid_exists(leader) or world.remaining_problem(began_at)):
            world.product.keep_running()
            rest(0.2)
    return ""


def restart_database(world: World, dice: random.Random, length: float) -> str:
    """Restart PostgreSQL in good order: it writes everything that it has confirmed."""
    return _restart_database(world, dice.uniform(0.2, 5 * length), signal.SIGINT)


def crash_database(world: World, dice: random.Random, length: float) -> str:
    """Stop PostgreSQL at once, as a crash would: it may lose the last moment of what it has confirmed."""
    return _restart_database(world, dice.uniform(0.2, 5 * length), signal.SIGQUIT)


def _restart_database(world: World, seconds: float, how: signal.Signals) -> str:
    assert world.postgres
    world.postgres.stop(how)
    world.strike()
    rest(seconds)
    world.postgres.start()
    return f"{seconds:.1f} s"


def cut(wire: str) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        line = getattr(world, wire)
        line.is_cut = True
        rest(2 + dice.uniform(1, 4) * length)
        line.is_cut = False
        world.loop.do(line.reset())
        return ""

    return inject


def slow_down(wire: str) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        line = getattr(world, wire)
        line.delay = dice.uniform(0.02, 0.1) if wire == "database_wire" else dice.uniform(0.3, 1.5)
        rest(2 + dice.uniform(1, 4) * length)
        line.delay = 0.0
        return ""

    return inject


def reset(wire: str) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        for _ in range(3):
            world.loop.do(getattr(world, wire).reset())
            rest(dice.uniform(0.05, 0.5))
        return ""

    return inject


def shift_clock(*distances: float) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        offset = dice.choice(distances) * dice.uniform(0.7, 1)
        world.shift_clock(offset)
        rest(2 + 3 * length)
        world.shift_clock(0.0)
        return f"{offset:+.0f} s"

    return inject


def misbehave(manner: Manner) -> Inject:
    def inject(world: World, dice: random.Random, length: float) -> str:
        world.sink.manner = manner
        rest(1.5 + dice.uniform(0.5, 2.5) * length)
        world.sink.manner = "well"
        return ""

    return inject


def poison(world: World, dice: random.Random, length: float) -> str:
    """Create a job that harms its worker, or one with an invalid row."""
    task, how = dice.choice(
        [
            *(("faults.poison", how) for how in ("exit", "leave", "recurse", "unprintable")),
            *(("faults.apoison", how) for how in ("leave", "unwritable", "unprintable")),
            ("faults.poison that vanished", ""),
            ("faults.poison", "zone"),
        ]
    )
    unreadable = {"trigger_type": "cron", "cron": "no", "timezone": "Nowhere/Land"} if how == "zone" else {}
    create_due_jobs({"name": f"poison {task} {how}", "task": task, "kwargs": {"how": how}, **unreadable})
    return f"{task} {how}"


def two_clusters_concurrently(world: World, dice: random.Random, length: float) -> str:
    started = [world.product.manage("qcluster") for _ in range(2)]
    try:
        rest(3 + 3 * length)
        world.product.seen |= {member for one in started for member in psutil.Process(one.pid).children(True)}
        for one in started:
            one.send_signal(signal.SIGTERM)
    finally:
        for one in started:
            end(one)
    return ""


def migrate(world: World, dice: random.Random, length: float) -> str:
    """Apply and revert a migration of the engine's tables."""
    tries = 0
    for target in ("zero", "0001"):
        code = 1
        while code and tries < 6:
            # Try again after losing a deadlock against the engine, as an operator would.
            tries += 1
            with _bounded(world.product.manage("migrate", "faults", target)) as process:
                code = process.wait(60)
        if code:
            raise RuntimeError(f"the migration to {target} ended with {code}")
    return f"{tries} tries"


@contextmanager
def _bounded(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


BOTH: dict[str, Inject] = {
    "kill-busy-worker": kill("busy"),
    "kill-idle-worker": kill("idle"),
    "kill-pusher": kill("pusher"),
    "kill-sentinel": kill("sentinel"),
    "kill-leader": kill("leader"),
    "kill-web": kill_web,
    "kill-mcp": kill_top("mcp"),
    "kill-everything": kill_top("up"),
    "kill-all": kill_all,
    "kill-claiming": kill_claiming,
    "guard-killed": hit_guard(signal.SIGKILL),
    "guard-frozen": hit_guard(signal.SIGSTOP),
    "freeze-worker": freeze("busy"),
    "freeze-pusher": freeze("pusher"),
    "freeze-cluster": freeze("cluster"),
    "freeze-workers": freeze_workers,
    "rolling-restart": rolling_restart,
    "stop-under-load": stop_under_load,
    "deploy": deploy,
    "key-rotation": rotate_key,
    "spawn-refused": refuse_spawns,
    "stuck-pusher": stick_pusher,
    "restore": restore,
    "database-locked": lock_database,
    "disk-full": fill_disk,
    "target-cut": cut("target_wire"),
    "target-slow": slow_down("target_wire"),
    "target-reset": reset("target_wire"),
    "clock-back": shift_clock(-40),
    # In one of three cases far enough that slots are no longer on time, so that the catch-up policy decides.
    "clock-forward": shift_clock(40, 40, 120),
    "target-hangs": misbehave("hangs"),
    "target-streams": misbehave("streams"),
    "target-429": misbehave("429"),
    "target-500": misbehave("500"),
    "target-redirects": misbehave("redirects"),
    "receiver-deaf": receiver_deaf,
    "poisoned-job": poison,
    "two-clusters-start": two_clusters_concurrently,
    "migration": migrate,
}
SQLITE: dict[str, Inject] = {"stuck-worker": stick_worker}
POSTGRESQL: dict[str, Inject] = {
    "database-restart": restart_database,
    "database-crash": crash_database,
    "database-cut": cut("database_wire"),
    "database-slow": slow_down("database_wire"),
    "database-reset": reset("database_wire"),
    "held-row": hold_row,
    "held-table": hold_table,
    "frozen-claim": freeze_in_claim,
    "first-starts": start_on_empty_database,
    "skew-5": skew(-5, 5),
    "skew-90": skew(-90, 90),
    "partition": partition,
}

# Kinds that start and stop a host, or last long by their nature: half a minute each.
LENGTHY = (
    "deploy",
    "first-starts",
    "frozen-claim",
    "held-row",
    "key-rotation",
    "kill-all",
    "partition",
    "receiver-deaf",
    "restore",
    "skew-",
    "stuck-",
)


def kinds(database: str) -> dict[str, Any]:
    return BOTH | (POSTGRESQL if database == "postgresql" else SQLITE)


def unavailable(database: str) -> dict[str, str]:
    """Return the kinds that cannot be tried on this machine, and why."""
    if database != "postgresql":
        return {}
    reasons = {kind: no_wall_clock() for kind in POSTGRESQL if kind.startswith("skew")}
    reasons["partition"] = no_namespaces()
    return {kind: reason for kind, reason in reasons.items() if reason}
