"""django-q2 as it comes: one-time rows of its Schedule, which its cluster looks at every 30 seconds."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django

from verification.bench.peers.system import POLL_SECONDS, WORKERS, System, moment, processes

os.environ["DJANGO_SETTINGS_MODULE"] = "verification.bench.peers.django_settings"
django.setup()

from django.core.management import call_command  # noqa: E402
from django_q.models import OrmQ, Schedule  # noqa: E402


class DjangoQ2(System):
    distributions = ("django-q2", "django")
    is_quick = False
    settings = f"ORM broker, {WORKERS} workers, poll {POLL_SECONDS} s, results not saved; its Schedule looks every 30 s"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        call_command("migrate", verbosity=0)
        with processes(["django-admin", "qcluster"]):
            yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        Schedule.objects.bulk_create(
            [
                Schedule(
                    func="verification.bench.peers.tasks.plain",
                    args=f"({due},)",
                    schedule_type=Schedule.ONCE,
                    next_run=moment(due),
                )
                for due in moments
            ],
            batch_size=500,
        )

    def unfinished(self) -> int:
        return int(Schedule.objects.count() + OrmQ.objects.count())
