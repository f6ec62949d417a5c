"""The isolation of the tests from the machine."""

import os
import subprocess

from tests.clusters import PROJECT
from tests.forks import python

IN_THE_BACKGROUND = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import tests.isolation
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_what_tests_start_can_be_interrupted_also_where_the_tests_run_in_the_background():
    done = subprocess.run(
        [*python(), "-c", IN_THE_BACKGROUND],
        cwd=PROJECT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("True\n", "")
