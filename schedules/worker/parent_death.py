"""Functions that end a process when its parent dies, so that no orphan keeps working.

They compare with the parent's pid as recorded before the fork, to detect a parent that dies while its child starts.
"""

import ctypes
import os
import platform
import signal
import threading
import time

IS_LINUX = platform.system() == "Linux"
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 1.0

_forking_pid = 0


def end_with_parent(parent: int, how: signal.Signals = signal.SIGKILL) -> None:
    """End this process when the process `parent` ends: at once on Linux, within a second elsewhere."""
    if IS_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, how, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), how)
        return
    threading.Thread(target=_end_after, args=(parent, how), daemon=True, name="parent-death").start()


def end_forks_with_parent() -> None:
    """Make every process that this one and its children fork from now on end with its parent."""
    os.register_at_fork(before=_record_pid, after_in_child=lambda: end_with_parent(_forking_pid))


def _record_pid() -> None:
    global _forking_pid
    _forking_pid = os.getpid()


def _end_after(parent: int, how: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)  # noqa: TID251  (a thread that watches a process)
    os.kill(os.getpid(), how)
