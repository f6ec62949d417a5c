"""manage.py qcluster: one cluster, watched and restarted, until it is told to stop."""

from typing import Any

from django.core.management.base import BaseCommand

from schedules.cluster import Leader


class Command(BaseCommand):
    help = "Fire jobs: run one more cluster, on this host or another."

    def handle(self, *args: Any, **options: Any) -> None:
        Leader().lead()
