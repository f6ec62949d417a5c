"""The leader's watch: which silence it reports, and which it excuses."""

import itertools
import os

import pytest
from django.db import connection, connections

from schedules.worker.context import ClusterContext
from schedules.worker.heartbeat_watch import HeartbeatWatch, RunDelay, Trouble
from schedules.worker.leader import release

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def watch(context, monkeypatch) -> HeartbeatWatch:
    """A watch for which a second passes whenever it asks for the time."""
    seconds = itertools.count()
    monkeypatch.setattr("schedules.worker.heartbeat_watch.time.monotonic", lambda: float(next(seconds)))
    return HeartbeatWatch(context)


def test_watch_reports_nothing_while_pulses_arrive(watch, context):
    for _ in range(30):
        context.pulse()
        context.probe_returned()
        assert watch.trouble() is None


def test_watch_reports_the_pulse_that_has_stopped(watch, context, monkeypatch):
    monkeypatch.setattr(HeartbeatWatch, "_can_write", lambda self: True)

    reports = []
    for _ in range(20):
        context.pulse()
        reports.append(watch.trouble())

    assert reports[0] is None
    found = set(filter(None, reports))
    assert ["probe" in report.reason and not report.pid for report in found] == [True]


def test_watch_does_not_blame_a_cluster_that_waits_for_a_processor(watch, context, monkeypatch):
    """On a starved machine the restart repeated what ran, and added to the load."""
    monkeypatch.setattr(HeartbeatWatch, "_can_write", lambda self: True)
    starved = iter([1.0] * 30)
    monkeypatch.setattr(RunDelay, "growth", lambda self, pids: next(starved, 0.0))

    reports = [watch.trouble() for _ in range(30)]
    assert set(reports) == {None}

    # With a processor, it is as silent as before.
    assert any(watch.trouble() for _ in range(30))


def test_watch_blames_the_cluster_if_its_claim_loop_does_not_come_back(watch, context, monkeypatch):
    monkeypatch.setattr(HeartbeatWatch, "_can_write", lambda self: True)

    def next_report() -> Trouble:
        return next(filter(None, iter(watch.trouble, "never")))

    before_its_start = next_report()
    context.pulse()
    context.probe_returned()
    first, second = next_report(), next_report()
    context.pulse()
    context.probe_returned()
    third = next_report()

    reports = [before_its_start, first, second, third]
    assert [report.pid for report in reports] == [None, os.getpid(), None, os.getpid()]
    assert "claim loop" in first.reason


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite needs no excuse for its claim loop")
def test_watch_blames_a_silent_claim_loop_as_soon_as_nothing_is_locked(watch, context, monkeypatch):
    blocked = iter([True] * 3)
    monkeypatch.setattr(ClusterContext, "is_blocked", property(lambda self: next(blocked, False)))
    monkeypatch.setattr(HeartbeatWatch, "_can_write", lambda self: True)

    # A second each: silent for more than nine, excused for three, and one look more.
    looks = next(number for number in itertools.count() if watch.trouble())

    assert looks <= 14


@pytest.mark.parametrize("is_reported", [False, True])
def test_watch_does_not_blame_the_cluster_for_a_database_that_does_not_answer(watch, context, is_reported):
    if not is_reported:
        # Like an outage: the row cannot be written.
        connection.close()
        connection.settings_dict = connection.settings_dict | {"NAME": "/nowhere/at/all", "PORT": 1}
    try:
        for _ in range(30):
            context.pulse()
            if is_reported:
                context.report_blocked()
            assert watch.trouble() is None
    finally:
        connection.settings_dict = connections.settings["default"]


def test_watch_works_again_after_its_connection_broke(cluster, context):
    """After one restart of PostgreSQL, a leader never noticed a frozen cluster again."""
    watch = HeartbeatWatch(context)
    # However long a new connection takes.
    watch._checked_at = float("inf")
    connection.ensure_connection()
    connection.connection.close()

    assert [watch._can_write() for _ in range(2)] == [False, True]

    cluster.refresh_from_db()
    assert cluster.watched_at is not None


def test_leader_retires_its_cluster_after_its_connection_broke(cluster, context):
    """A cluster stopped after a restart of PostgreSQL was listed as running until its heartbeat was stale."""
    connection.ensure_connection()
    connection.connection.close()

    release(context, "stopped")

    cluster.refresh_from_db()
    assert cluster.stopped_at is not None
