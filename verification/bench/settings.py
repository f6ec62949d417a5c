"""Settings of the benchmarks: Cronty with the benchmark's tasks."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import DATABASES, INSTALLED_APPS
from verification.bench.peers.system import synchronous

INSTALLED_APPS = [*INSTALLED_APPS, "verification.bench"]
if command := DATABASES["default"]["OPTIONS"].get("init_command"):
    DATABASES["default"]["OPTIONS"]["init_command"] = command.replace("FULL", synchronous())
