"""Isolation of the tests from the machine: an own data folder, and no setting from the environment.

This is a plugin and not a conftest, because the settings are read before any conftest.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

for name in list(os.environ):
    # Keep the choice of zone data: the tests pass with either source.
    if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL")) and name != "CRONTY_ZONE_DATA":
        del os.environ[name]
os.environ["CRONTY_DATA"] = tempfile.mkdtemp(prefix="cronty-tests-")
Path(os.environ["CRONTY_DATA"], "static").mkdir()
atexit.register(shutil.rmtree, os.environ["CRONTY_DATA"], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run three workers on two cores: tests that start processes spend much of their time waiting for them."""
    return max(1, (os.cpu_count() or 1) * 3 // 2)
