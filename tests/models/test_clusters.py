"""Clusters: which are fresh, and how they are shown."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.models import FRESH_FOR, Cluster
from tests.factories import ClusterFactory

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "fresh"),
    [
        pytest.param({"last_seen_at": NOW}, True, id="just seen"),
        pytest.param({"last_seen_at": NOW - FRESH_FOR}, True, id="seen in time"),
        pytest.param({"last_seen_at": NOW - FRESH_FOR - timedelta(seconds=1)}, False, id="silent"),
        pytest.param({"last_seen_at": NOW, "stopped_at": NOW}, False, id="stopped"),
    ],
)
def test_fresh_cluster_was_seen_recently_and_has_not_stopped(fields, fresh):
    ClusterFactory(**fields)

    assert Cluster.objects.fresh(NOW).exists() is fresh
