"""Why a slot was missed: what each cluster was doing at that moment."""

from datetime import datetime, timedelta

import pytest

from schedules import engine
from schedules.engine.interruptions import BUSY, DATABASE, NO_CLUSTER, Interruption, ReasonMissed
from schedules.models import Cluster, Execution
from tests.engine.conftest import NOW, new_cluster
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def outage(first: int, last: int, reason: str = DATABASE) -> Interruption:
    """An interruption between two minutes after now."""
    return Interruption(NOW + first * MINUTE, NOW + last * MINUTE, reason)


def cluster(first: int, last: int, *interruptions: Interruption, **fields: object) -> Cluster:
    """A cluster that was alive between two minutes after now."""
    return new_cluster(
        started_at=NOW + first * MINUTE,
        last_seen_at=NOW + last * MINUTE,
        interruptions=[item.to_json() for item in interruptions],
        **fields,
    )


def why(own: Cluster, minute: float, *interruptions: Interruption) -> str:
    now: datetime = NOW + 60 * MINUTE
    return ReasonMissed(own.pk, now, interruptions)(NOW + minute * MINUTE)


def test_reason_is_what_interrupted_the_cluster_at_that_moment(django_assert_num_queries):
    own = cluster(10, 50)
    reason = ReasonMissed(own.pk, NOW + 60 * MINUTE, [outage(20, 30), outage(35, 40, NO_CLUSTER)])

    with django_assert_num_queries(1):
        assert reason(NOW + 9 * MINUTE) == NO_CLUSTER
        assert reason(NOW + 25 * MINUTE) == DATABASE
        assert reason(NOW + 37 * MINUTE) == NO_CLUSTER


def test_cluster_without_an_interruption_was_too_busy():
    assert why(cluster(10, 50), 31, outage(20, 30)) == BUSY
    # The last heartbeat is a moment ago.
    assert why(cluster(10, 50), 59) == BUSY


def test_interruptions_of_other_clusters_are_read_from_their_rows():
    own = cluster(40, 50)
    cluster(0, 30, outage(10, 20))

    assert why(own, 15) == DATABASE
    # After the other's last heartbeat nobody is known to have been alive.
    assert why(own, 35) == NO_CLUSTER


def test_free_cluster_outweighs_an_interrupted_one():
    own = cluster(0, 50)
    cluster(0, 50)

    assert why(own, 15, outage(10, 20)) == BUSY


def test_claim_writes_the_reason_into_the_row_of_the_gap():
    own = cluster(-600, 0)
    JobFactory(cron="0 * * * *", next_run_at=NOW - 300 * MINUTE)

    engine.claim_runs(own.pk, NOW, 10, interruptions=[outage(-310, -1)])

    assert Execution.objects.get(status="missed").reason == DATABASE
