"""The time that processes wait for a processor: it grows for one that has to share it, and not for a stopped one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from schedules.worker.heartbeat_watch import RunDelay, children_of
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux counts it")

BUSY = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[list[psutil.Popen]]:
    """Processes that share one core and never sleep."""
    processes = [psutil.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_process_that_shares_a_core_waits_and_a_stopped_one_does_not():
    delay = RunDelay()
    with busy_processes(2) as (first, second):
        assert delay.growth([first.pid]) == 0.0
        waited = []
        wait_for(lambda: waited.append(delay.growth([first.pid])) or sum(waited) > 0.3)

        first.suspend()
        wait_for(lambda: first.status() == psutil.STATUS_STOPPED)
        delay.growth([first.pid])
        wait_for(lambda: sum(second.cpu_times()[:2]) > 0.5)
        assert delay.growth([first.pid]) == 0.0


def test_process_that_is_gone_is_left_out():
    assert RunDelay().growth([2**22 + 1]) == 0.0


def test_children_are_those_that_the_main_thread_started():
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        assert child.pid in children_of(os.getpid())
        child.kill()
    assert children_of(2**22 + 1) == []
