"""The engine on a table of runs that is partitioned by time, as docs/explanation/scale.md describes it."""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from django.db import IntegrityError, connection, transaction

from schedules import clock, engine
from schedules.models import Execution
from tests.clusters import PROJECT
from tests.factories import ClusterFactory, ExecutionFactory, JobFactory

SCRIPT = PROJECT / "docs/how-to/deploy/partitions.sql"
PAGE = PROJECT / "docs/explanation/scale.md"
WEEK = timedelta(days=7)

pytestmark = pytest.mark.django_db


@pytest.fixture
def old_run():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no partitions")
    run = ExecutionFactory(scheduled_for=clock.now() - 20 * WEEK, status="succeeded")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(SCRIPT.read_text())
    return run


def partition_of(run: Execution) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM schedules_execution WHERE id = %s", [run.pk])
        return str(cursor.fetchone()[0])


def test_engine_works_on_partitions(old_run):
    cluster, now = ClusterFactory(), clock.now()
    job = JobFactory(interval=True, every=timedelta(seconds=5), next_run_at=now, task="tests.aping")

    (claim,) = engine.claim_runs(cluster.pk, now, 10)
    (started,) = engine.start_runs(cluster.pk, 0, [claim.execution_id], now)
    outcome = engine.Outcome(started.execution_id, 1, job.pk, Execution.Status.SUCCEEDED, now)
    assert engine.settle_runs(cluster.pk, [outcome]).written == 1

    run = Execution.objects.get(pk=claim.execution_id)
    assert (run.status, partition_of(run)) == ("succeeded", "schedules_execution_first")
    assert run.pk > old_run.pk


def test_slot_is_still_unique(old_run):
    job = JobFactory(next_run_at=clock.now())
    ExecutionFactory(job=job, scheduled_for=job.next_run_at)

    with pytest.raises(IntegrityError), transaction.atomic():
        ExecutionFactory(job=job, scheduled_for=job.next_run_at)


@pytest.mark.parametrize(("weeks", "partition"), [(2, r"schedules_execution_\d{4}_w\d\d"), (20, ".*_other")])
def test_later_runs_go_to_the_partition_of_their_week(old_run, weeks, partition):
    later = ExecutionFactory(scheduled_for=clock.now() + weeks * WEEK)

    assert re.fullmatch(partition, partition_of(later))


def test_partition_is_dropped_with_its_runs(old_run):
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE schedules_execution_first")

    assert not Execution.objects.filter(pk=old_run.pk).exists()


def test_weeks_are_added_and_dropped_as_the_page_says(old_run):
    """The weeks of the page are moved, so that the first partition is the old one and the new one is far ahead."""
    (code,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    code = code.replace("schedules_execution_2026_w43", "schedules_execution_first").replace("2027", "2057")

    with connection.cursor() as cursor:
        cursor.execute(code)

    moment = datetime(2057, 1, 26, tzinfo=UTC)
    assert partition_of(ExecutionFactory(scheduled_for=moment)) == "schedules_execution_2057_w04"
    assert not Execution.objects.filter(pk=old_run.pk).exists()


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_script_runs_in_psql_as_the_page_says():
    """An error after the script undoes all of it, because the command is one transaction."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no partitions")
    (command,) = re.findall(r"```sh\n(psql .*?)\n```", PAGE.read_text())
    database = connection.settings_dict
    address = "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format_map(
        {name: quote(str(value), safe="") for name, value in database.items()}
    )

    done = subprocess.run(
        ["sh", "-c", f"{command} -c 'SELECT 1 / 0'"],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": address, "PGOPTIONS": "-c lock_timeout=10s"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "CREATE TABLE" in done.stdout
    assert re.findall("ERROR.*", done.stderr) == ["ERROR:  division by zero"]


def test_indexes_keep_the_names_that_migrations_use(old_run):
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'schedules_execution'")
        names = {name for (name,) in cursor.fetchall()}

    expected = {index.name for index in Execution._meta.indexes}
    assert names >= expected | {"execution_is_the_only_one_of_its_slot"}
