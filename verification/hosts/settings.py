"""Cronty's settings for several clusters, with a task that records where and when it ran."""

from cronty_site.settings import *  # noqa: F403
from cronty_site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "verification.hosts"]
