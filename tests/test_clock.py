"""The current time: the database's clock, measured by each host."""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection

from schedules import clock
from schedules.clock import DatabaseClock
from schedules.engine.clusters import WARN_EVERY
from schedules.models import Cluster, Execution
from tests.clusters import PROJECT, environment, fresh_cluster, make_due
from tests.forks import python
from tests.waiting import PATIENCE, wait_for
from verification.stop_under_load import notes

only_on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no clock")

NOON = datetime(2026, 2, 4, 12, 0, tzinfo=UTC)


class Host:
    """The clocks of a host, moved by hand."""

    def __init__(self) -> None:
        self.steady = 5000.0
        self.now = NOON

    def advance(self, seconds: float) -> None:
        self.steady += seconds
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(clock, "steady", lambda: made.steady)
    monkeypatch.setattr(clock.timezone, "now", lambda: made.now)
    return made


@pytest.fixture
def database(host: Host, monkeypatch: pytest.MonkeyPatch) -> DatabaseClock:
    made = DatabaseClock()
    monkeypatch.setattr(clock, "database", made)
    return made


def read(database: DatabaseClock, host: Host, time: datetime, trip: float = 0.002) -> None:
    """Add a reading that was taken in the middle of its round trip; `time` is the database's at the end of it."""
    sent = host.steady
    host.advance(trip)
    database.add(sent, time.timestamp() - trip / 2, host.steady)


def test_hosts_clock_is_used_until_the_database_was_read(host, database):
    assert clock.now() == NOON
    assert clock.ahead() == 0
    assert not database.is_host_set()


@pytest.mark.parametrize("ahead", [90, -90, 0.4])
def test_time_is_that_of_the_database(host, database, ahead):
    theirs = NOON - timedelta(seconds=ahead)

    read(database, host, theirs)
    host.advance(7)

    assert clock.now() == theirs + timedelta(seconds=7)
    assert clock.ahead() == pytest.approx(ahead, abs=0.01)
    assert database.error == pytest.approx(0.001)


def test_setting_the_hosts_clock_changes_nothing_and_is_noticed(host, database):
    read(database, host, NOON)

    host.now += timedelta(hours=1)

    assert clock.now() == NOON
    assert clock.ahead() == pytest.approx(3600, abs=0.01)
    assert database.is_host_set()
    read(database, host, NOON)
    assert not database.is_host_set()


def test_less_exact_reading_that_agrees_is_not_used(host, database):
    read(database, host, NOON, trip=0.002)

    host.advance(3)
    read(database, host, NOON + timedelta(seconds=3.25), trip=0.2)

    assert clock.now() == NOON + timedelta(seconds=3.2)
    assert database.error == pytest.approx(0.001)


def test_more_exact_reading_replaces_the_one_in_use(host, database):
    read(database, host, NOON, trip=0.2)

    host.advance(3)
    read(database, host, NOON + timedelta(seconds=3.05), trip=0.002)

    assert clock.now() == NOON + timedelta(seconds=3.05)
    assert database.error == pytest.approx(0.001)


@pytest.mark.parametrize("step", [3600, -3600, 0.3])
def test_setting_the_databases_clock_is_followed_at_the_next_reading(host, database, step):
    read(database, host, NOON, trip=0.002)

    host.advance(3)
    read(database, host, NOON + timedelta(seconds=3.2 + step), trip=0.2)

    assert clock.now() == NOON + timedelta(seconds=3.2 + step)


def test_old_reading_is_replaced_by_one_of_a_longer_round_trip(host, database):
    """The two clocks may have drifted apart since."""
    read(database, host, NOON, trip=0.002)

    host.advance(600)
    read(database, host, NOON + timedelta(seconds=600.01), trip=0.04)

    assert clock.now() == NOON + timedelta(seconds=600.01)


@pytest.mark.django_db
def test_measuring_reads_the_clock_of_postgresql_and_none_on_sqlite(monkeypatch, measure):
    monkeypatch.setattr(clock, "database", DatabaseClock())

    measure()

    if connection.vendor == "sqlite":
        assert clock.database.time() is None
    else:
        assert abs(clock.ahead()) <= clock.database.error + 0.001


@pytest.mark.django_db
def test_every_new_connection_is_measured_before_its_first_query(monkeypatch):
    measured = []
    monkeypatch.setattr(clock, "measure", measured.append)
    other = connection.copy()

    other.ensure_connection()
    other.close()

    assert measured == [other]


SKEWED_CLUSTER = """
import sys
from datetime import timedelta
from django.core.management import execute_from_command_line
from django.utils import timezone
host, ahead = timezone.now, timedelta(seconds=float(sys.argv[1]))
timezone.now = lambda: host() + ahead
execute_from_command_line(["manage.py", "qcluster"])
"""


@contextmanager
def running_skewed_cluster(ahead: int) -> Iterator[Cluster]:
    """Run a cluster on a host whose clock is wrong."""
    known = set(Cluster.objects.values_list("pk", flat=True))
    process = subprocess.Popen(
        [*python(), "-c", SKEWED_CLUSTER, str(ahead)],
        cwd=PROJECT,
        env=environment(CRONTY_WORKERS=1, CRONTY_LOG_LEVEL="WARNING"),
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(lambda: fresh_cluster(known))
        yield Cluster.objects.exclude(pk__in=known).get()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        _, log = process.communicate()
    direction = "ahead of" if ahead > 0 else "behind"
    words = f"WARNING schedules.engine.clusters: This host's clock is {abs(ahead)} seconds {direction} the database's"
    warned_at = [
        datetime.fromisoformat(line.split(",")[0]) for line in log.decode().splitlines() if words in line
    ]
    assert warned_at
    assert all(later - earlier >= timedelta(seconds=WARN_EVERY - 1) for earlier, later in pairwise(warned_at))


def has_tidied(cluster: Cluster, since: datetime) -> bool:
    """Tell whether a cluster has looked for expired leases after this moment: it does so between two heartbeats."""
    before = cluster.last_seen_at
    cluster.refresh_from_db(fields=["last_seen_at"])
    return since < before < cluster.last_seen_at


@only_on_postgresql
@pytest.mark.django_db(transaction=True)
def test_hosts_with_wrong_clocks_fire_on_time_and_take_over_no_living_run(tmp_path):
    """One is 90 seconds ahead and one 90 seconds behind: to each, a lease of the other would be over or far off."""
    path, end = tmp_path / "notes", tmp_path / "end"
    with running_skewed_cluster(90) as fast, running_skewed_cluster(-90) as slow:
        jobs = make_due(4, "tests.wait", after=4, path=str(path), until=str(end))
        due_at = jobs[0].run_at
        wait_for(lambda: notes(path, "begin") or clock.now() >= due_at)
        is_early = clock.now() < due_at
        running = Execution.objects.filter(status="running")
        wait_for(lambda: set(running.values_list("cluster", flat=True)) == {fast.pk, slow.pk})
        both_run_since = clock.now()
        wait_for(lambda: has_tidied(fast, both_run_since))
        wait_for(lambda: has_tidied(slow, both_run_since))
        end.touch()
        wait_for(lambda: sum(notes(path, "end").values()) >= 4)
        wait_for(lambda: not Execution.objects.live().exists())
        fast.refresh_from_db()
        slow.refresh_from_db()

    rows = Execution.objects.exclude(task="prune_history")
    assert not is_early
    assert {row.cluster_id for row in rows} == {fast.pk, slow.pk}
    assert Counter(rows.values_list("status", "attempt")) == {("succeeded", 1): 4}
    assert all(row.lateness >= timedelta(0) for row in rows)
    assert set(notes(path, "begin").values()) == {1}
    assert (fast.clock_ahead, slow.clock_ahead) == (pytest.approx(90, abs=1), pytest.approx(-90, abs=1))
