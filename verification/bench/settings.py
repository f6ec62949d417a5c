"""Settings of the benchmarks: Cronty with the benchmark's tasks, or plain django-q2 for comparison."""

import os

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "verification.bench"]
if os.environ.get("BENCH_STOCK"):
    Q_CLUSTER = {"name": "stock", "orm": "default", "workers": 2, "timeout": 60, "retry": 90, "save_limit": 0}
