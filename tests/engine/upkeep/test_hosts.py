"""Differences between hosts: clocks and zone data."""

import socket
from datetime import timedelta

import pytest

from schedules import clock, engine
from schedules.engine import clusters
from schedules.when import zones
from tests.factories import ClusterFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_warning_before(monkeypatch):
    monkeypatch.setattr(clusters, "_warned_at", float("-inf"))


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0.9, ""),
        (-1.0, ""),
        (1.6, "2 seconds ahead of the database's"),
        (-3600.2, "3,600 seconds behind the database's"),
    ],
)
def test_difference_of_more_than_a_second_is_said_in_words(ahead, words):
    assert clusters.describe_deviation(ahead) == words


def test_living_clusters_with_a_wrong_clock_are_named_once_per_host():
    ClusterFactory(host="right", clock_ahead=0.2)
    ClusterFactory.create_batch(2, host="kettle", clock_ahead=90.1)
    ClusterFactory(host="gone", clock_ahead=90, last_seen_at=clock.now() - timedelta(hours=1))

    assert engine.host_warnings(clock.now()) == [
        "The clock of kettle is 90 seconds ahead of the database's. Jobs run by the database's clock; correct the"
        " host's."
    ]


def test_this_hosts_own_clock_is_named(monkeypatch):
    monkeypatch.setattr(clock, "ahead", lambda: -5.0)

    (warning,) = engine.host_warnings(clock.now())

    assert warning.startswith(f"The clock of {socket.gethostname()} is 5 seconds behind the database's.")


def test_hosts_with_other_zone_data_are_named_with_their_releases():
    ClusterFactory.create_batch(2, host="kettle", zone_data="2025b")
    ClusterFactory(host="unknown", zone_data="")

    (warning,) = engine.host_warnings(clock.now())

    assert f": kettle has 2025b, {socket.gethostname()} has {zones.release()}." in warning


def test_hosts_that_agree_are_not_mentioned():
    ClusterFactory(zone_data=zones.release(), clock_ahead=0.01)

    assert engine.host_warnings(clock.now()) == []


def test_log_tells_of_a_wrong_clock_once_a_minute(monkeypatch, caplog):
    cluster = ClusterFactory()
    monkeypatch.setattr(clock, "ahead", lambda: 90.0)

    engine.beat(cluster.pk, clock.now())
    engine.beat(cluster.pk, clock.now())

    assert [record.getMessage() for record in caplog.records] == [
        "This host's clock is 90 seconds ahead of the database's. Jobs run by the database's clock; correct the host's."
    ]
    cluster.refresh_from_db()
    assert cluster.clock_ahead == 90

    monkeypatch.setattr(clusters, "WARN_EVERY", 0.0)
    engine.beat(cluster.pk, clock.now())
    assert len(caplog.records) == 2


def test_new_cluster_records_its_zone_data_and_clock(monkeypatch):
    monkeypatch.setattr(clock, "ahead", lambda: -2.0)

    row = engine.enlist(clock.now())

    assert (row.zone_data, row.clock_ahead) == (zones.release(), -2)
