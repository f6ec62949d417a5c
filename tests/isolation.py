"""Settings for tests: a data folder of their own, and nothing from the machine's environment.

A plugin rather than a conftest, because the settings are read before any conftest is.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

for name in list(os.environ):
    if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL")):
        del os.environ[name]
os.environ["CRONTY_DATA"] = tempfile.mkdtemp(prefix="cronty-tests-")
Path(os.environ["CRONTY_DATA"], "static").mkdir()
atexit.register(shutil.rmtree, os.environ["CRONTY_DATA"], ignore_errors=True)
