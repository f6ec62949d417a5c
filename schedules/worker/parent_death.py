"""How a process ends with the one that started it: a dead parent leaves no orphan at work."""

import ctypes
import os
import platform
import signal
import threading
import time

IS_LINUX = platform.system() == "Linux"
PR_SET_PDEATHSIG = 1
LOOK_EVERY = 1.0


def tie_to_parent(how: signal.Signals = signal.SIGKILL) -> None:
    """End this process when its parent ends: at once on Linux, within a second elsewhere."""
    parent = os.getppid()
    if IS_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, how, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), how)
        return
    threading.Thread(target=_end_after, args=(parent, how), daemon=True, name="parent-death").start()


def tie_forks() -> None:
    """Tie every process that this one and its children fork from now on."""
    os.register_at_fork(after_in_child=tie_to_parent)


def _end_after(parent: int, how: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)  # noqa: TID251
    os.kill(os.getpid(), how)
