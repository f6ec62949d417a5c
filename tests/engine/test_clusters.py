"""Registration, heartbeats and retirement of clusters."""

import os
from datetime import timedelta

import pytest

from schedules import engine
from schedules.engine.interruptions import BUSY, Interruption
from schedules.models import FRESH_FOR, Cluster
from tests.engine.conftest import NOW

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


def test_heartbeat_records_interruptions_only_when_they_are_given():
    cluster = engine.enlist(NOW)
    interruption = Interruption(NOW, NOW + HOUR, BUSY)

    engine.beat(cluster.pk, NOW, interruptions=[interruption])
    engine.beat(cluster.pk, NOW)

    cluster.refresh_from_db()
    assert [Interruption.from_json(values) for values in cluster.interruptions] == [interruption]
