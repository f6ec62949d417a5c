"""How many plain functions one cluster runs at once: locks of the kernel, which the dead cannot hold."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOOK_AGAIN_AFTER = 0.002
PREFIX = "cronty-lanes-"
# A folder this young may be one that its leader has made and is about to hold.
IN_THE_MAKING = 60.0

# The cluster's folder of lock files; made by its leader before it forks the workers.
_folder: Path | None = None
_count = 0
# Held by the leader and all that it forks: a folder that nobody holds belonged to a cluster that was killed.
_hold = -1


def open_lanes(count: int) -> None:
    """Make a lane for each plain function that may run at once."""
    global _folder, _count, _hold
    _remove_left_behind()
    _folder, _count = Path(tempfile.mkdtemp(prefix=PREFIX)), count
    _hold = os.open(_folder, os.O_RDONLY)
    fcntl.flock(_hold, fcntl.LOCK_SH)


def close_lanes() -> None:
    global _folder
    if _folder:
        shutil.rmtree(_folder, ignore_errors=True)
        os.close(_hold)
        _folder = None


def _remove_left_behind() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # Whatever cannot be looked at, held or removed is not ours to tidy, or is gone already.
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > IN_THE_MAKING:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)


@contextmanager
def lane(patience: float) -> Iterator[bool]:
    """Hold a lane; False when all were taken for as long as one was ready to wait."""
    until = time.monotonic() + patience
    handle = _take()
    while handle is None and time.monotonic() < until:
        time.sleep(LOOK_AGAIN_AFTER)  # noqa: TID251
        handle = _take()
    try:
        yield handle is not None
    finally:
        if handle is not None:
            # Said, not only closed: a process that the function left behind has a copy of the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def _take() -> int | None:
    assert _folder is not None, "the cluster's leader opens the lanes"
    # Made again if need be: the system may clear its temporary files away under a cluster that runs for weeks.
    _folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(_count):
        handle = os.open(_folder / str(number), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        else:
            return handle
    return None
