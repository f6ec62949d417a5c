"""Growth of the server processes: samples of memory, file handles and database connections, and verdicts."""

import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil


class Measure(NamedTuple):
    """A measured figure, and the growth that still counts as flat."""

    name: str
    share: float
    amount: float


# The larger of the two applies: a share for large values, an amount for small ones.
MEASURES = (
    Measure("memory MB", 0.05, 8),
    Measure("file handles", 0.05, 8),
    Measure("database connections", 0.0, 2),
)


class Verdict(NamedTuple):
    """One measure of one group of processes: the medians of the second and of the last quarter."""

    group: str
    measure: Measure
    early: float
    late: float
    chance: float

    @property
    def allowed(self) -> float:
        return self.early + max(self.measure.share * self.early, self.measure.amount) + self.chance

    @property
    def is_flat(self) -> bool:
        return self.late <= self.allowed

    def __str__(self) -> str:
        return (
            f"{'flat' if self.is_flat else 'GROWS'}: {self.measure.name} of {self.group},"
            f" {self.early:.0f} in the second quarter, {self.late:.0f} in the last,"
            f" at most {self.allowed:.0f} allowed"
        )


class Record:
    """The samples of a run, by group of processes and measure."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, Measure], list[float]] = defaultdict(list)

    def add(self, totals: dict[str, list[float]]) -> None:
        for group, values in totals.items():
            for measure, value in zip(MEASURES, values, strict=True):
                self.samples[group, measure].append(value)

    def verdicts(self) -> Iterator[Verdict]:
        """Return a verdict on each series, without the first quarter, in which processes warm up."""
        for (group, measure), values in self.samples.items():
            quarter = len(values) // 4
            if quarter < 2:
                raise ValueError(f"{len(values)} samples of {group} are too few to judge: take at least 8")
            early, late = values[quarter : 2 * quarter], values[-quarter:]
            # A fluctuating value ends a little higher by chance, especially with few samples.
            chance = 3 * statistics.stdev(early) / quarter**0.5
            yield Verdict(group, measure, statistics.median(early), statistics.median(late), chance)


def sample(pid: int, database: dict[str, Any]) -> dict[str, list[float]]:
    """Sum the figures of each process session under this one: the web server, the cluster, the parent."""
    totals: dict[str, list[float]] = {}
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        try:
            used = [_memory(process) / 1e6, float(process.num_fds()), float(_connections(process, database))]
            group = _name(os.getsid(process.pid), pid)
        except (psutil.Error, OSError):
            # The process ended while it was measured.
            continue
        totals[group] = [sum(pair) for pair in zip(used, totals.get(group, [0.0] * len(used)), strict=True)]
    return totals


def _memory(process: psutil.Process) -> int:
    """Return the proportional memory of a process (PSS) where the system reports it."""
    info = process.memory_full_info()
    return int(getattr(info, "pss", 0) or info.rss)


def _connections(process: psutil.Process, database: dict[str, Any]) -> int:
    if "sqlite3" in database["ENGINE"]:
        return sum(file.path == str(database["NAME"]) for file in process.open_files())
    port = int(database["PORT"])
    return sum(
        bool(connection.raddr) and connection.raddr.port == port for connection in process.net_connections()
    )


def _name(session: int, parent: int) -> str:
    """Name a session by the title of the process that leads it: `cronty web …` or `qcluster leader`."""
    if session == os.getsid(parent):
        return "up"
    return " ".join(psutil.Process(session).cmdline()).removeprefix("cronty ").split()[0]
