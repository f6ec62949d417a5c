"""Isolation of the tests from the machine, and what all workers of pytest share.

The tests have a data folder of their own, no setting from the environment and every signal at its default; one fork
server serves all workers, and they share one migrated database.

This is a plugin and not a conftest, because the settings are read before any conftest.
"""

import atexit
import os
import shlex
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.databases import SHARED_DATABASE
from tests.forks import LIBRARIES, SHARED, fork_server, python

for name in list(os.environ):
    # Keep the choice of zone data: the tests pass with either source.
    if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL")) and name != "CRONTY_ZONE_DATA":
        del os.environ[name]
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell makes background commands ignore Ctrl-C, and the processes that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["CRONTY_DATA"] = tempfile.mkdtemp(prefix="cronty-tests-")
Path(os.environ["CRONTY_DATA"], "static").mkdir()
atexit.register(shutil.rmtree, os.environ["CRONTY_DATA"], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run two workers for each core: one of them starts with tests that mostly wait for other processes."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """Start the fork server, which needs next to nothing before its first request, and have it fork the workers."""
    if SHARED not in os.environ:
        stack = ExitStack()
        os.environ[SHARED_DATABASE] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="cronty-database-")
        )
        config.add_cleanup(stack.close)
        os.environ[SHARED] = stack.enter_context(fork_server(LIBRARIES, os.environ)).address
        # A measured worker starts as usual.
        if config.getoption("tx", None) and not config.getoption("cov_source", None):
            config.option.tx = [f"popen//python={shlex.join(python())}" for _ in config.option.tx]
