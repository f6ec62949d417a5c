"""A rolling restart of two clusters while a job fires every second."""

import signal
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection

from schedules import clock
from schedules.models import Execution, Job
from tests.clusters import LEASE_SECONDS, running_cluster
from tests.factories import JobFactory
from tests.waiting import PATIENCE, wait_for
from verification.stop_under_load import notes

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="several hosts need PostgreSQL"),
]

SECOND = timedelta(seconds=1)


def test_restarted_cluster_leaves_no_slot_late_repeated_or_missed(tmp_path):
    path = tmp_path / "notes"
    with running_cluster():
        with running_cluster(CRONTY_STOP_SECONDS=60) as stopped:
            job = JobFactory(
                interval=True,
                every=SECOND,
                next_run_at=clock.now() + SECOND,
                overlap="allow",
                catch_up="all",
                task="tests.anote",
                kwargs={"path": str(path), "seconds": 0.5},
            )
            runs = Execution.objects.filter(job=job)
            wait_for(lambda: runs.count() >= 3)

            stopped.send_signal(signal.SIGTERM)
            assert stopped.wait(PATIENCE) == 0

        after_stop = runs.count()
        with running_cluster():
            wait_for(lambda: runs.filter(status="succeeded").count() >= after_stop + 3)
            Job.objects.filter(pk=job.pk).update(status="paused", next_run_at=None)
            wait_for(lambda: not runs.live().exists())
    rows = list(runs.order_by("scheduled_for"))
    assert {(row.status, row.attempt, row.slots) for row in rows} == {("succeeded", 1, 1)}
    assert all(later.scheduled_for - earlier.scheduled_for == SECOND for earlier, later in pairwise(rows))
    # A slot that the stopped cluster had not handed back would wait for its lease.
    assert max(row.lateness for row in rows) < LEASE_SECONDS * SECOND
    assert set(notes(path, "end").values()) == {1}
