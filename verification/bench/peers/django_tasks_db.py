"""django-tasks-db: the database backend of Django's tasks, with its own worker command."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django

from verification.bench.peers import tasks
from verification.bench.peers.system import POLL_SECONDS, WORKERS, System, moment, processes

os.environ["DJANGO_SETTINGS_MODULE"] = "verification.bench.peers.django_settings"
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django_tasks import task  # noqa: E402
from django_tasks_db.models import DBTaskResult  # noqa: E402


# The backend finds a task by its path, so the tasks have to be attributes of this module.
@task()
def plain(due: int) -> None:
    tasks.plain(due)


@task()
async def coroutine(due: int) -> None:
    await tasks.coroutine(due)


class DjangoTasksDb(System):
    distributions = ("django-tasks-db", "django-tasks", "django")
    runs_coroutines = True
    settings = f"{WORKERS} db_worker processes with --interval {POLL_SECONDS}"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        call_command("migrate", verbosity=0)
        options = f"db_worker --interval {POLL_SECONDS} --no-startup-delay --no-reload".split()
        with processes(*[["django-admin", *options]] * WORKERS):
            yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        wanted = coroutine if kind == "coroutine" else plain
        with transaction.atomic():
            for due in moments:
                wanted.using(run_after=moment(due)).enqueue(due)

    def unfinished(self) -> int:
        return DBTaskResult.objects.filter(status__in=["READY", "RUNNING"]).count()
