"""The load that other programs put on the machine, before and during a measurement."""

import os
import resource
import time
from dataclasses import dataclass, field

import psutil

MOST_SHARE = 0.10


@dataclass
class ForeignLoad:
    """Watches one measurement: construct it before the first process starts, and finish it after the last has ended."""

    load_average: float = field(default_factory=lambda: os.getloadavg()[0])
    before: float = field(default_factory=lambda: psutil.cpu_percent(interval=2) / 100)
    during: float | None = None
    loop: float = field(default_factory=lambda: milliseconds_of_a_loop())
    """Of the two times, before and after the measurement, the longer one."""
    _begin: tuple[float, float, float] = field(default_factory=lambda: _counters())

    def finish(self) -> "ForeignLoad":
        """Compare the busy time of all cores with that of our own processes, which have ended by now."""
        elapsed, busy, ours = (end - begin for end, begin in zip(_counters(), self._begin, strict=True))
        cores = psutil.cpu_count() or 1
        self.during = min(1.0, max(0.0, (busy - ours) / (elapsed * cores)))
        self.loop = max(self.loop, milliseconds_of_a_loop())
        return self

    @property
    def is_heavy(self) -> bool:
        return max(self.before, self.during or 0) > MOST_SHARE

    def as_json(self) -> dict[str, float | bool | None]:
        during = None if self.during is None else round(self.during, 3)
        return {
            "load_average": round(self.load_average, 2),
            "before": round(self.before, 3),
            "during": during,
            "loop": round(self.loop),
            "is_heavy": self.is_heavy,
        }


def milliseconds_of_a_loop() -> float:
    """Time the same loop of Python: on a shared host a core may be slower, and no counter of the guest tells."""

    def once() -> float:
        begin = time.perf_counter()
        sum(number * number for number in range(1_000_000))
        return 1000 * (time.perf_counter() - begin)

    return min(once() for _ in range(3))


def wait_for_rest(seconds: float) -> None:
    """Wait until others use little, but not for ever: a loaded measurement is marked, not refused."""
    until = time.monotonic() + seconds
    while psutil.cpu_percent(interval=1) / 100 > MOST_SHARE and time.monotonic() < until:
        pass


def _counters() -> tuple[float, float, float]:
    """Return seconds: the clock, the busy time of all cores, and the CPU time of us and our ended children."""
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + getattr(times, "steal", 0.0)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), busy, sum(usage.ru_utime + usage.ru_stime for usage in usages)
