"""Turns at SQLite's write lock, so that the claims of a cluster do not starve its workers.

SQLite lets writers try again after growing pauses, so a process that writes back to back keeps the others out. With turns,
the workers wait in the kernel, in order, and the claim loop goes ahead only when none of them waits: claims then become
larger and fewer, by as much as the load demands.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from django.db import connections

POLL = 0.0003
# How many seconds the claim loop waits for workers that write: it must show its pulse, also while the database is locked.
WAIT_FOR_TURN = 1.0


class Turns:
    """The turns of one cluster: a file lock, which orders the writers; SQLite's own lock still protects the data."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "turn"

    @contextmanager
    def take(self, max_wait: float | None = None) -> Iterator[None]:
        """Hold the turn inside the block, or go ahead without it after `max_wait` seconds."""
        handle = self._open() if connections["default"].vendor == "sqlite" else None
        try:
            if handle is not None:
                _lock(handle, max_wait)
            yield
        finally:
            if handle is not None:
                # Not by closing alone: a process that a task has forked meanwhile would keep it. If this process dies,
                # the kernel releases it.
                fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)

    def take_for_claim_loop(self) -> AbstractContextManager[None]:
        """Hold the turn inside the block, but let workers that write go first for a while."""
        return self.take(WAIT_FOR_TURN)

    def _open(self) -> int | None:
        """Return a new descriptor of the file, because a lock belongs to a descriptor; None if there is no file."""
        # The folder may have been cleaned up while the cluster runs.
        with suppress(OSError):
            return os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        return None


def _lock(handle: int, max_wait: float | None) -> None:
    if max_wait is None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return
    until = time.perf_counter() + max_wait
    while time.perf_counter() < until:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(POLL)  # noqa: TID251  (waits for another process)
