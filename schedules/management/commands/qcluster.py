"""manage.py qcluster: run one cluster, watch it and restart it, until a signal says stop."""

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from schedules.worker import parent_death
from schedules.worker.cluster import Leader


class Command(BaseCommand):
    help = "Fire jobs: run one more cluster, on this host or another."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--with-parent", type=int, metavar="PID", help="Stop when this parent process ends."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_parent"]:
            parent_death.end_with_parent(options["with_parent"], signal.SIGTERM)
        Leader().lead()
