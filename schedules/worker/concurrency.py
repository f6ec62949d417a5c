"""Permits that limit how many plain functions, and how many commands, one cluster runs at once.

A permit is a file lock, because the kernel releases it when its holder dies.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings

PREFIX = "cronty-permits-"
# Younger folders may belong to a leader that has not locked its folder yet.
REMOVE_AFTER = 60.0


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
        # Create it again if needed: the system may clean up temporary files while a cluster runs for weeks.
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
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is not a private folder of this user: remove it, or restart the cluster."
        )


def _remove_abandoned_folders() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Ignore a folder that cannot be opened, locked or removed: it is in use, not ours, or already gone.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > REMOVE_AFTER:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)
