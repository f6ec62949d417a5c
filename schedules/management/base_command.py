"""The base of Cronty's management commands."""

from django.core.management.base import BaseCommand

from schedules import __version__


class CrontyCommand(BaseCommand):
    """A command whose `--version` is Cronty's; by default it is Django's."""

    def get_version(self) -> str:
        return __version__
