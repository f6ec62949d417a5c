"""Facts about processes from Linux's /proc: how long they waited for a processor, and which one holds a SQLite lock.

On other systems, everything is unknown.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
NANOSECONDS = 1e9
LOCKS = PROC / "locks"
# The byte of the shared-memory file that a writer locks in WAL mode.
WRITE_LOCK = "120"
# The state after SIGSTOP; under a debugger, it is "t".
STOPPED = "T"


class RunDelay:
    """Remembers how long each thread of some processes has waited for a processor."""

    def __init__(self) -> None:
        self._waited: dict[str, int] = {}

    def growth(self, pids: Iterable[int]) -> float:
        """Return by how many seconds the longest wait of a thread has grown since the last call.

        A thread that sleeps, or was stopped by a signal, does not wait for a processor.
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
    waits = {}
    with suppress(OSError):
        for thread in (PROC / f"{pid}/task").iterdir():
            # The fields: time on a processor, time waiting for one, number of runs.
            waits[str(thread)] = int((thread / "schedstat").read_text().split()[1])
    return waits


def stopped_holder(database: Path, turn: Path, parent: int) -> int | None:
    """Return the process that holds the write lock or the turn at it although it is stopped, or None.

    It must be a child of `parent`, or belong to another cluster on this host, which may be stopped as a whole. A process
    that is not stopped may be in a long transaction of a user's task; processes of other programs are up to their users.
    """
    for pid in (holder(database), _holder(turn, "FLOCK", "0")):
        if pid is None:
            continue
        state, its_parent = _state_and_parent(pid)
        if state == STOPPED and (its_parent == parent or _is_cluster(pid)):
            return pid
    return None


def holder(database: Path) -> int | None:
    """Return the process that holds the write lock now, or None."""
    return _holder(database.with_name(f"{database.name}-shm"), "POSIX", WRITE_LOCK)


def _holder(file: Path, kind: str, start: str) -> int | None:
    """Return the process that holds a lock of this kind beginning at this byte of a file, or None."""
    try:
        inode = file.stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        # Not Linux, not in WAL mode, or no turn was taken yet.
        return None
    for line in lines:
        # For example `1: POSIX  ADVISORY  WRITE 4619 fe:00:1574136 120 120`; waiting processes have `->` after the number.
        match line.split():
            case [_, its_kind, _, "WRITE", pid, its_file, its_start, _] if (its_kind, its_start) == (
                kind,
                start,
            ):
                if its_file.endswith(f":{inode}"):
                    return int(pid)
    return None


def _is_cluster(pid: int) -> bool:
    try:
        # The title that every process of a cluster gives itself.
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"qcluster ")
    except OSError:
        return False


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        # The name of the process, in parentheses, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])
