"""Why a slot was missed: what each cluster was doing at that moment."""

from datetime import datetime, timedelta

import pytest
from django.db import connection

from schedules import engine
from schedules.engine.interruptions import (
    BUSY,
    JOB_LOCKED,
    NO_CLUSTER,
    RESTARTED,
    SLOW,
    Interruption,
    reason_missed,
)
from schedules.models import Cluster, Execution, Job
from tests.engine.conftest import NOW, new_cluster
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
PLAIN, COROUTINE = Job(task="tests.ping"), Job(task="tests.aping")


def outage(
    first: int, last: int, reason: str = "The database did not answer.", **fields: bool
) -> Interruption:
    """An interruption between two minutes after now."""
    return Interruption(NOW + first * MINUTE, NOW + last * MINUTE, reason, **fields)


def cluster(first: int, last: int, *interruptions: Interruption, **fields: object) -> Cluster:
    """A cluster that was alive between two minutes after now."""
    return new_cluster(
        started_at=NOW + first * MINUTE,
        last_seen_at=NOW + last * MINUTE,
        interruptions=[item.to_json() for item in interruptions],
        **fields,
    )


def why(own: Cluster, minute: float, *interruptions: Interruption, job: Job = PLAIN) -> str:
    now: datetime = NOW + 60 * MINUTE
    return reason_missed(own.pk, now, interruptions)(job, NOW + minute * MINUTE)


def test_reason_is_what_interrupted_the_cluster_at_that_moment(django_assert_num_queries):
    own = cluster(10, 50)
    reason = reason_missed(own.pk, NOW + 60 * MINUTE, [outage(20, 30), outage(35, 40, BUSY)])

    with django_assert_num_queries(1):
        assert reason(PLAIN, NOW + 9 * MINUTE) == NO_CLUSTER
        assert reason(PLAIN, NOW + 25 * MINUTE) == "The database did not answer."
        assert reason(PLAIN, NOW + 37 * MINUTE) == BUSY


def test_cluster_that_could_claim_found_the_job_locked():
    expected = JOB_LOCKED if connection.vendor == "postgresql" else SLOW

    assert why(cluster(10, 50), 31, outage(20, 30)) == expected
    # The last heartbeat is a moment ago.
    assert why(cluster(10, 50), 59) == expected


def test_busy_plain_functions_do_not_explain_a_missed_coroutine():
    own = cluster(0, 50)
    busy = outage(20, 30, BUSY, lane="plain")

    assert why(own, 25, busy, job=PLAIN) == BUSY
    assert why(own, 25, busy, job=COROUTINE) != BUSY


def test_interruptions_of_other_clusters_are_read_from_their_rows():
    own = cluster(40, 50)
    cluster(0, 30, outage(10, 20, "The database was locked."))

    assert why(own, 15) == "The database was locked."
    # After the other's last heartbeat nobody is known to have been alive.
    assert why(own, 35) == NO_CLUSTER


def test_free_cluster_outweighs_an_interrupted_one():
    own = cluster(0, 50)
    cluster(0, 50)

    assert why(own, 15, outage(10, 20)) in (JOB_LOCKED, SLOW)


def test_cluster_that_was_restarted_had_been_stuck():
    own = cluster(40, 50)
    cluster(0, 20, stopped_at=NOW + 30 * MINUTE, note="Restarted: its claim loop was silent for 9 s")

    assert why(own, 25) == RESTARTED
    assert why(own, 35) == NO_CLUSTER


def test_claim_writes_the_reason_into_the_row_of_the_gap():
    own = cluster(-600, 0)
    JobFactory(cron="0 * * * *", next_run_at=NOW - 300 * MINUTE)

    engine.claim_runs(own.pk, NOW, 10, interruptions=[outage(-310, -1, "The disk of the database was full.")])

    assert Execution.objects.get(status="missed").reason == "The disk of the database was full."
