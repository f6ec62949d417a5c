"""Settings for tests: a data folder of their own, and nothing from the machine's environment."""

import os
import tempfile

for name in list(os.environ):
    if name.startswith(("CRONTY_", "NTFY_", "EMAIL_URL")):
        del os.environ[name]
os.environ["CRONTY_DATA"] = tempfile.mkdtemp(prefix="cronty-tests-")
