"""Registration, heartbeats and retirement of clusters."""

import os
from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.clusters import coverage
from schedules.models import FRESH_FOR, Cluster
from tests.engine.conftest import NOW, new_cluster

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_enlisted_cluster_has_the_pid_of_this_process_and_is_running():
    cluster = engine.enlist(NOW)

    assert cluster.pid == os.getpid()
    assert engine.is_any_cluster_running(NOW + FRESH_FOR)
    assert not engine.is_any_cluster_running(NOW + FRESH_FOR + timedelta(seconds=1))


def test_heartbeat_keeps_a_cluster_alive_until_it_is_retired():
    cluster = engine.enlist(NOW)

    engine.beat(cluster.pk, NOW + HOUR)
    assert engine.is_any_cluster_running(NOW + HOUR)

    engine.retire(cluster.pk, NOW + HOUR, "why")
    assert not engine.is_any_cluster_running(NOW + HOUR)
    cluster.refresh_from_db()
    assert (cluster.stopped_at, cluster.note) == (NOW + HOUR, "why")


def test_second_retirement_keeps_the_first_time():
    cluster = engine.enlist(NOW)

    engine.retire(cluster.pk, NOW)
    engine.retire(cluster.pk, NOW + HOUR, "again")

    cluster.refresh_from_db()
    assert (cluster.stopped_at, cluster.note) == (NOW, "")


def test_retired_cluster_is_running_again_after_its_next_heartbeat():
    cluster = engine.enlist(NOW)
    engine.retire(cluster.pk, NOW)

    engine.beat(cluster.pk, NOW + HOUR)

    assert engine.is_any_cluster_running(NOW + HOUR)


def test_returned_probe_records_when_it_was_sent():
    cluster = engine.enlist(NOW)

    engine.probe_returned(cluster.pk, NOW + HOUR)

    assert Cluster.objects.get().probe_returned_at == NOW + HOUR


@pytest.mark.parametrize(
    ("hours", "covered"), [(-1, False), (0, True), (2, True), (3, False), (5, True), (6, True), (7, False)]
)
def test_moment_is_covered_if_a_cluster_was_running_then(hours, covered, django_assert_num_queries):
    new_cluster(started_at=NOW, last_seen_at=NOW + 2 * HOUR)
    new_cluster(started_at=NOW + 5 * HOUR, last_seen_at=NOW + 5 * HOUR, stopped_at=NOW + 6 * HOUR)
    was_covered = coverage()

    with django_assert_num_queries(1):
        assert was_covered(NOW + hours * HOUR) is covered
        assert was_covered(NOW + hours * HOUR) is covered
