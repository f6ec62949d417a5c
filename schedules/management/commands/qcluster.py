"""manage.py qcluster: one cluster, watched and restarted, until it is told to stop."""

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from schedules.worker import parent_death
from schedules.worker.cluster import Leader


class Command(BaseCommand):
    help = "Fire jobs: run one more cluster, on this host or another."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--with-parent", action="store_true", help="Stop when the parent process ends.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_parent"]:
            parent_death.tie_to_parent(signal.SIGTERM)
        Leader().lead()
