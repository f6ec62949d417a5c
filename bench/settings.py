"""Cronty's settings, with the benchmark's own tasks to run."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench"]
