"""Stalls of the machine during a campaign: moments in which a program that only sleeps was held up.

On a shared host a whole core may stand still for seconds. Then a lease ends or a run is late without a fault, so the report
names these moments. They excuse nothing: a campaign that violates a rule is to be repeated on a quiet machine.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Seconds: how often each core is tried, and how long a hold-up is worth a record.
EVERY = 0.05
WORTH_A_RECORD = 0.5

Stall = tuple[float, float]


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """Try every core while the block runs, and record in this folder when one of them stood still."""
    watches = [
        subprocess.Popen([sys.executable, "-m", __name__, str(core), str(folder / f"stalls-{core}")])
        for core in _cores()
    ]
    try:
        yield
    finally:
        for watch in watches:
            watch.kill()
            watch.wait()


def stalls_in(folder: Path) -> list[Stall]:
    """Return the stalls recorded so far: when each began, and its seconds."""
    lines = [line.split() for path in folder.glob("stalls-*") for line in path.read_text().splitlines()]
    return sorted((float(began_at), float(seconds)) for began_at, seconds in lines)


def words(stalls: Sequence[Stall]) -> str:
    longest = max((seconds for _, seconds in stalls), default=0.0)
    times = f"{len(stalls)} times for more than {WORTH_A_RECORD:g} s, the longest for {longest:.1f} s"
    return f"a core of this machine stood still: {times if stalls else 'never'}"


def watch(core: int, path: Path) -> None:
    """Sleep on this core, and record whenever that takes much longer than asked; end with the parent."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    parent = os.getppid()
    with path.open("a", buffering=1) as file:
        while os.getppid() == parent:
            began_at, begin = time.time(), time.monotonic()
            time.sleep(EVERY)  # noqa: TID251
            held_up = time.monotonic() - begin - EVERY
            if held_up > WORTH_A_RECORD:
                file.write(f"{began_at:.3f} {held_up:.3f}\n")


def _cores() -> list[int]:
    """Return the cores that this process may use; where a process cannot be kept on a core, one of them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]))
