"""The database: connection, tables, clock, clusters and work."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from schedules import clock
from schedules.management.commands.doctor import examine
from schedules.management.doctor import database
from schedules.models import Cluster, Execution, Installation
from tests.clusters import PROJECT
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory
from tests.projects import Project

pytestmark = pytest.mark.django_db


def found(check: str) -> list[tuple[str, str]]:
    findings = [*database.examine_connection(), *database.examine_content()]
    return [(finding.level, finding.message) for finding in findings if finding.check == check]


def test_healthy_database_has_no_findings():
    ClusterFactory()

    findings = [*database.examine_connection(), *database.examine_content()]

    assert [finding for finding in findings if finding.level != "ok"] == []
    assert {finding.check for finding in findings} == {
        "database",
        "migrations",
        "secret key",
        "clock",
        "clusters",
        "work",
        "watch",
        "alerts",
    }


def test_database_that_does_not_answer_is_the_only_finding_about_it(monkeypatch):
    def refuse() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", refuse)

    findings = list(examine(reach_out=False))

    assert [finding.level for finding in findings if finding.check == "database"] == ["problem"]
    assert "clusters" not in {finding.check for finding in findings}


def test_missing_database_is_a_problem_and_is_not_created(tmp_path):
    variables = {"CRONTY_DATA": str(tmp_path), "DATABASE_URL": f"sqlite:///{tmp_path}/none.sqlite3"}

    done = Project(PROJECT, variables).run("doctor", "--offline")

    assert done.returncode == 1
    assert f"There is no database {tmp_path}/none.sqlite3: check CRONTY_DATA, or run" in done.stdout
    assert list(tmp_path.glob("none*")) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no pooler")
@pytest.mark.parametrize(("value", "findings"), [("0", 1), ("8s", 0)])
def test_missing_limits_behind_a_pooler_are_reported(monkeypatch, value, findings):
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    with connection.cursor() as cursor:
        for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {name} = '{value}'")

    assert len([words for level, words in found("database") if level == "warning"]) == findings


def test_missing_and_unknown_migrations_are_problems():
    recorder = MigrationRecorder(connection)
    recorder.record_applied("schedules", "9999_from_the_future")
    [(level, message)] = found("migrations")
    assert level == "problem"
    assert "9999_from_the_future" in message

    recorder.record_unapplied("schedules", "9999_from_the_future")
    [(_, newest)] = MigrationLoader(connection).graph.leaf_nodes("schedules")
    recorder.record_unapplied("schedules", newest)
    [(level, message)] = found("migrations")
    assert (level, message) == ("problem", f"1 are missing: schedules.{newest}.")


def test_foreign_secret_key_is_a_problem_and_stays_unchanged():
    Installation.objects.update_or_create(pk=Installation.ONLY, defaults={"secret_fingerprint": "other"})

    assert found("secret key")[0][0] == "problem"
    assert Installation.objects.get().secret_fingerprint == "other"


def test_host_that_died_while_another_goes_on_is_a_warning():
    now = clock.now()
    ClusterFactory(host="db-1", started_at=now - timedelta(hours=1))
    died = now - timedelta(minutes=1)
    ClusterFactory(host="db-2", last_seen_at=died, stopped_at=died, note="It stopped responding.")

    assert [words for level, words in found("clusters") if level == "warning"] == [
        f"db-2 stopped responding at {died:%Y-%m-%d %H:%M:%S} UTC and is not back."
    ]


def test_clock_that_was_set_back_is_a_problem():
    ClusterFactory(last_seen_at=clock.now() + timedelta(hours=1))

    assert found("clock")[0][0] == "problem"


def test_clock_that_differs_from_the_database_is_reported(monkeypatch):
    monkeypatch.setattr(clock, "ahead", lambda: 7.0)

    assert ("warning", "The clock of this host is 7 seconds ahead of the database's.") in found("clock")


def test_without_a_cluster_nothing_fires():
    ClusterFactory(last_seen_at=clock.now() - timedelta(hours=1))

    assert found("clusters") == [("problem", "None is running: nothing fires.")]


def test_blocked_and_silent_clusters_are_reported():
    now = clock.now()
    ClusterFactory(
        started_at=now - timedelta(hours=1),
        blocked_since=now - timedelta(minutes=1),
        probe_returned_at=now - timedelta(minutes=10),
    )

    assert [level for level, _ in found("clusters")] == ["ok", "problem", "warning"]


def test_late_jobs_and_long_waits_are_reported():
    now = clock.now()
    ClusterFactory()
    JobFactory(next_run_at=now - timedelta(hours=1))
    ExecutionFactory(status=Execution.Status.QUEUED, available_at=now - timedelta(hours=1), finished_at=None)

    assert [level for level, _ in found("work")] == ["problem", "warning"]


def test_another_hosts_clock_is_reported():
    ClusterFactory()
    Cluster.objects.update(clock_ahead=90)

    assert found("hosts")[0][0] == "warning"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers")
def test_second_cluster_on_sqlite_is_reported():
    ClusterFactory(host="nas", pid=1)
    assert {level for level, _ in found("clusters")} == {"ok"}

    ClusterFactory(host="nas", pid=2)

    assert [message for level, message in found("clusters") if level == "warning"] == [
        "2 clusters share one SQLite database, which has one writer at a time: nas:1, nas:2."
    ]


WATCH = "https://watch.example/5ec2e7"


def watched(**columns: object) -> tuple[str, str]:
    Installation.objects.update_or_create(pk=1, defaults=columns)
    [finding] = found("watch")
    return finding


def test_outside_watch_that_is_not_set_is_said():
    [(level, message)] = found("watch")

    assert (level, message.startswith("CRONTY_HEARTBEAT_URL is not set")) == ("ok", True)


def test_outside_watch_is_judged_by_the_pings_of_the_clusters(settings):
    settings.CRONTY_HEARTBEAT_URL = WATCH
    now = clock.now()

    assert found("watch")[0][0] == "warning", "it has not been pinged"
    assert watched(watch_error="watch.example answered 404.") == (
        "warning",
        "CRONTY_HEARTBEAT_URL has never answered: watch.example answered 404.",
    )
    assert watched(watch_answered_at=now)[0] == "problem"
    assert watched(watch_error="")[0] == "ok"
    level, message = watched(watch_answered_at=now - timedelta(minutes=6))
    assert (level, WATCH in message) == ("warning", False)
