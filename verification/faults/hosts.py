"""Faults of one host of two, on PostgreSQL: its clock is wrong, or the network between it and the others is cut."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

from verification.faults.product import PROJECT, rest
from verification.faults.sink import Proxy
from verification.faults.wall_clock import wrong_clock
from verification.faults.world import World

# How long a partition lasts in the long campaign, and how often each of these comes.
PARTITIONS = {25: 6, 110: 3, 245: 1}
SHORT_PARTITION = 14.0
# Seconds within which a cluster works again when its connections have been half open.
RECOVERY = 10.0


@cache
def no_namespaces() -> str:
    """Return why no process can have a network of its own here, or an empty text."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "network namespaces need root and `ip`"
    try:
        with namespace():
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network namespace: {error.stderr.decode().strip()}"


def skew(*seconds: int) -> Callable[[World, random.Random, float], str]:
    """Run the second cluster on a host whose clock is wrong by one of these."""

    def inject(world: World, dice: random.Random, length: float) -> str:
        offset = dice.choice(seconds)
        world.strike(host="second")
        clock = wrong_clock(world.folder, offset)
        world.product.move("second", replace(world.product.home, environment=clock))
        _wait_for_second(world)
        rest(5 + 15 * length)
        world.product.move("second", None)
        _wait_for_second(world)
        return f"{offset:+d} s"

    return inject


def partition(world: World, dice: random.Random, length: float) -> str:
    """Run the second cluster in a network of its own, and cut its only link without a word to either end."""
    assert world.postgres
    server = world.postgres
    seconds: float = SHORT_PARTITION
    if length >= 1:
        seconds = dice.choices(list(PARTITIONS), list(PARTITIONS.values()))[0]
    with namespace() as (name, host):
        database, target = Proxy(lambda: server.port), Proxy(lambda: world.target_wire.port)
        inner = None
        try:
            for proxy in (database, target):
                world.loop.do(proxy.start(host))
            # Jobs name the target by a loopback address, which is another one in there.
            inner = subprocess.Popen(
                [
                    *("ip", "netns", "exec", name, sys.executable, "-m", "verification.faults.hosts"),
                    *(str(world.target_wire.port), host, str(target.port)),
                ],
                cwd=PROJECT,
            )
            url = server.url.replace(f"127.0.0.1:{server.port}", f"{host}:{database.port}")
            world.product.move(
                "second",
                replace(
                    world.product.home,
                    environment={"DATABASE_URL": url},
                    prefix=("ip", "netns", "exec", name),
                ),
            )
            _wait_for_second(world)
            world.strike(host="second")
            ip("link", "set", name, "down")
            rest(seconds)
            ip("link", "set", name, "up")
            back_at = time.time()
            _wait_for_second(world, back_at)
            recovered_after = time.time() - back_at
        finally:
            world.product.move("second", None)
            if inner:
                inner.kill()
                inner.wait()
            for proxy in (database, target):
                world.loop.do(proxy.stop())
    _wait_for_second(world)
    if recovered_after > RECOVERY + 5 * (world.pace - 1):
        world.problem = f"its cluster was back {recovered_after:.1f} s after the link"
    return f"{seconds:.0f} s, back after {recovered_after:.1f} s"


def _wait_for_second(world: World, since: float | None = None, seconds: float = 60.0) -> None:
    """Wait until a probe has returned in the second cluster, by its own clock after its start."""
    from schedules.models import Cluster  # noqa: PLC0415

    started = time.time()
    while time.time() < started + seconds:
        pid = world.product.leaders().get("second")
        row = Cluster.objects.filter(pid=pid, stopped_at=None).order_by("-pk").first()
        if (
            row
            and row.probe_returned_at > row.started_at
            and (since is None or row.probe_returned_at.timestamp() > since)
        ):
            return
        rest(0.1)


@contextmanager
def namespace(number: int = 0) -> Iterator[tuple[str, str]]:
    """Make a network namespace that is linked with this one; yield the name of it and of the link, and our address."""
    name = f"cronty{os.getpid() % 100_000}-{number}"
    near, far = (f"10.213.{os.getpid() % 250}.{4 * number + end}" for end in (1, 2))
    try:
        ip("netns", "add", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("addr", "add", f"{near}/30", "dev", name)
        ip("link", "set", name, "up")
        for words in (f"addr add {far}/30 dev eth0", "link set eth0 up", "link set lo up"):
            ip("-n", name, *words.split())
        yield name, near
    finally:
        for words in (f"link del {name}", f"netns del {name}"):
            with suppress(subprocess.CalledProcessError):
                ip(*words.split())


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


async def _forward(port: int, host: str, far_port: int) -> None:
    await Proxy(lambda: far_port, host).start(port=port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_forward(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
