"""The preloaded clock: the wall clock is wrong, and nothing else."""

import json
import os
import subprocess
import sys
import time

import pytest

from verification.faults.wall_clock import no_wall_clock, wrong_clock

pytestmark = pytest.mark.skipif(bool(no_wall_clock()), reason=no_wall_clock())

READ = """
import datetime, json, multiprocessing, time
begin = time.monotonic()
time.sleep(0)
time.sleep(0.1)
lock = multiprocessing.get_context("fork").Lock()
lock.acquire()
is_acquired = lock.acquire(timeout=0.2)
clocks = [time.time(), time.time_ns() / 1e9, datetime.datetime.now().timestamp(), time.clock_gettime(time.CLOCK_REALTIME)]
print(json.dumps([clocks, time.monotonic(), time.monotonic() - begin, is_acquired]))
"""


@pytest.mark.parametrize("offset", [-90, 90])
def test_only_the_wall_clock_is_wrong(offset, tmp_path):
    environment = os.environ | wrong_clock(tmp_path, offset)
    before = time.time(), time.monotonic()
    printed = subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, check=True)
    after = time.time(), time.monotonic()

    wall_clocks, monotonic, slept, is_acquired = json.loads(printed.stdout)
    for wall_clock in wall_clocks:
        assert before[0] <= wall_clock - offset <= after[0]
    assert before[1] <= monotonic <= after[1]
    assert 0.3 <= slept <= after[1] - before[1]
    assert not is_acquired
