"""The process that holds the write lock of a SQLite database, as Linux reports it.

SQLite does not tell. Asking for the lock of its file from here would, on closing the file, release this process's own.
"""

from pathlib import Path

LOCKS = Path("/proc/locks")
# The byte of the shared-memory file that a writer locks in WAL mode.
WRITE_LOCK = "120"
# SIGSTOP, and not a debugger, which has the state "t".
STOPPED = "T"


def stopped_holder(database: Path, parent: int) -> int | None:
    """Return the child of `parent` that holds the write lock although it is stopped, or None.

    A child that is not stopped may be in a long transaction of a user's task.
    """
    pid = holder(database)
    if pid is None:
        return None
    state, parent_of_holder = _state_and_parent(pid)
    return pid if state == STOPPED and parent_of_holder == parent else None


def holder(database: Path) -> int | None:
    """Return the process that holds the write lock now, or None."""
    try:
        inode = database.with_name(f"{database.name}-shm").stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        # Not Linux, or not in WAL mode.
        return None
    for line in lines:
        # As in `1: POSIX  ADVISORY  WRITE 4619 fe:00:1574136 120 120`; who waits for a lock has `->` after the number.
        match line.split():
            case [_, "POSIX", _, "WRITE", pid, file, start, _] if start == WRITE_LOCK:
                if file.endswith(f":{inode}"):
                    return int(pid)
    return None


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        # The name of the process, in parentheses, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[1])
