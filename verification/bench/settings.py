"""Cronty's settings, with the benchmark's own tasks to run; or django-q2 as it comes, for comparison."""

import os

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "verification.bench"]
if os.environ.get("BENCH_STOCK"):
    Q_CLUSTER = {"name": "stock", "orm": "default", "workers": 2, "timeout": 60, "retry": 90, "save_limit": 0}
