"""Cronty's settings, with the tests' own tasks to run: for processes that tests start."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.sample_app"]
