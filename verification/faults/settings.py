"""Cronty's settings for the fault campaign: the tests' tasks, the campaign's own, and a clock that can be shifted."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "verification.faults"]
