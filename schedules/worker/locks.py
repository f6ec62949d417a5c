"""File locks between the processes of a cluster: permits that limit what runs at once, and turns at SQLite's write lock.

The kernel releases them when their holder dies.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import connections

PREFIX = "cronty-permits-"
# Younger folders may belong to a leader that has not locked its folder yet.
REMOVE_AFTER = 60.0
POLL = 0.0003
# How many seconds the claim loop lets workers write first; it must show its pulse even while the database is locked.
WAIT_FOR_TURN = 1.0


class Permits:
    """A number of permits, shared by a leader and every process that it forks."""

    def __init__(self, count: int) -> None:
        self.count = count
        _remove_abandoned_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # The leader and every process that it forks share this lock: an unlocked folder is abandoned.
        self._folder_lock = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(self._folder_lock, fcntl.LOCK_SH)

    def take(self) -> int | None:
        """Take a permit for plain functions, or return None if none is free; `give_back` releases it."""
        return self._try_acquire(self.count)

    def take_command(self) -> int | None:
        """Take a permit for a command, or return None if none is free; `give_back` releases it."""
        return self._try_acquire(settings.CRONTY_COMMANDS_AT_ONCE, "command-")

    def give_back(self, handle: int) -> None:
        # Unlock explicitly: a child process may still hold a copy of the descriptor.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        if self._folder_lock >= 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._folder_lock)
            self._folder_lock = -1

    def _try_acquire(self, count: int, prefix: str = "") -> int | None:
        # Recreate it if needed: the system may clean up temporary files while a cluster runs for weeks.
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        _refuse_foreign_folder(self.folder)
        for number in range(count):
            handle = os.open(self.folder / f"{prefix}{number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
            else:
                return handle
        return None


def _refuse_foreign_folder(folder: Path) -> None:
    """Raise PermissionError if another user has put a folder or a link where ours was cleaned up."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is not a private folder of this user: remove it, or restart the cluster."
        )


def _remove_abandoned_folders() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Ignore a folder that cannot be opened, locked or removed: it is in use, not ours, or already gone.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                status = os.fstat(handle)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > REMOVE_AFTER:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)


class Turns:
    """Turns at SQLite's write lock, so that a cluster's claims do not starve its workers.

    SQLite lets writers try again after growing pauses, so a process that writes back to back keeps the others out. With
    turns, the workers wait in the kernel, in order, and the claim loop goes ahead only when none of them waits: claims
    then become larger and fewer, by as much as the load demands. SQLite's own lock still protects the data.
    """

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
                # Unlock explicitly: a process that a task has forked may still hold a copy of the descriptor. If this
                # process dies, the kernel releases the lock.
                fcntl.flock(handle, fcntl.LOCK_UN)
                os.close(handle)

    def take_for_claim_loop(self) -> AbstractContextManager[None]:
        """Hold the turn inside the block, but let writing workers go first for a while."""
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
