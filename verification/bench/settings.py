"""Settings of the benchmarks: Cronty with the benchmark's tasks."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "verification.bench"]
