"""Cronty itself: one cluster, with jobs as its services would write them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from verification.bench import harness, recorder

harness.prepare(Path(os.environ[recorder.FOLDER]))

from schedules.models import Execution  # noqa: E402
from verification.bench.peers.system import WORKERS, System, moment  # noqa: E402


class Cronty(System):
    distributions = ("django", "django-q2", "psycopg")
    runs_coroutines = True
    settings = f"default settings, {WORKERS} workers; every run is a row of the ledger"

    @contextmanager
    def running(self, kind: str) -> Iterator[None]:
        with harness.cluster(WORKERS):
            harness.wait_for_worker()
            yield

    def add(self, moments: Sequence[int], kind: str) -> None:
        harness.make_jobs([moment(due) for due in moments], f"bench.{kind}")

    def unfinished(self) -> int:
        return Execution.objects.exclude(status__in=Execution.FINAL).count()
