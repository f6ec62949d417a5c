"""How many plain functions one cluster runs at once: locks of the kernel, which the dead cannot hold."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK_AGAIN_AFTER = 0.002

# The cluster's folder of lock files; made by its leader before it forks the workers.
_folder: Path | None = None


def open_lanes(count: int) -> None:
    """Make a lane for each plain function that may run at once."""
    global _folder
    _folder = Path(tempfile.mkdtemp(prefix="cronty-lanes-"))
    for number in range(count):
        (_folder / str(number)).touch()


def close_lanes() -> None:
    global _folder
    if _folder:
        for path in _folder.iterdir():
            path.unlink()
        _folder.rmdir()
        _folder = None


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
            os.close(handle)


def _take() -> int | None:
    assert _folder is not None, "the cluster's leader opens the lanes"
    for path in sorted(_folder.iterdir()):
        handle = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        else:
            return handle
    return None
