"""How long processes have waited for a processor, as Linux counts it; nothing is known elsewhere."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
NANOSECONDS = 1e9


class RunDelay:
    """Remembers how long each thread of some processes has waited for a processor."""

    def __init__(self) -> None:
        self._waited: dict[str, int] = {}

    def growth(self, pids: Iterable[int]) -> float:
        """Return by how many seconds the longest wait of a thread has grown since the last call.

        A thread that sleeps, or that was stopped by a signal, waits for no processor.
        """
        before, self._waited = self._waited, {}
        for pid in pids:
            self._waited |= _waits_of(pid)
        grown = (waited - before[thread] for thread, waited in self._waited.items() if thread in before)
        return max(grown, default=0) / NANOSECONDS


def children_of(pid: int) -> list[int]:
    """Return the processes that the main thread of a process has started."""
    with suppress(OSError):
        return [int(word) for word in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    return []


def _waits_of(pid: int) -> dict[str, int]:
    """Map the threads of a process to the nanoseconds they have waited for a processor."""
    found = {}
    with suppress(OSError):
        for thread in (PROC / f"{pid}/task").iterdir():
            # The time on a processor, the time that it waited for one, and how often it ran.
            found[str(thread)] = int((thread / "schedstat").read_text().split()[1])
    return found
