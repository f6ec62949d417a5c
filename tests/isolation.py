"""Settings for tests: a data folder of their own, and nothing from the machine's environment.

A plugin rather than a conftest, because the settings are read before any conftest is.
"""

import os
import tempfile
from pathlib import Path

for name in list(os.environ):
    if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL")):
        del os.environ[name]

_data = tempfile.TemporaryDirectory(prefix="cronty-tests-")
os.environ["CRONTY_DATA"] = _data.name
Path(_data.name, "static").mkdir()
