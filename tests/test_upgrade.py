"""Migrations from the first release: every row and value is kept."""

import ast
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps as current_apps
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from django.test import Client

from schedules import clock, engine
from schedules import migrations as released
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.models import Cluster, Execution
from tests.mcp.agents import InMemory

FIRST = ("schedules", "0001_initial")
# The content without its formatting and comments.
FIRST_DIGEST = "8855b41a6beb4cc714bbdeda9d4d612ff5258e644081876238c39a3cb74f9337"

NAMES = (
    "Cluster",
    "Job",
    "Execution",
    "RunOutput",
    "Event",
    "Profile",
    "Token",
    "Secret",
    "Installation",
    "MachineStart",
    "UserSession",
)
NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)
ODD_MOMENT = datetime(2026, 3, 29, 0, 59, 59, 999_999, tzinfo=UTC)
FOREVER = timedelta(days=5 * 366, microseconds=999_999)
# Several scripts, a combining mark, a joined emoji, quotes, and what templates and SQL care about.
ODD_TEXT = "Zoë e\u0301 日本語 שלום 👩\u200d👩\u200d👧 %s {{x}} <b>'\";-- "
ODD_JSON = {"text": ODD_TEXT, "big": 2**63 - 1, "small": -1.5e-7, "deep": [[{"ключ": [None, True, ""]}]]}
TRIGGERS: dict[str, dict[str, Any]] = {
    "once": {"run_at": ODD_MOMENT},
    "interval": {"every": FOREVER, "anchor_at": ODD_MOMENT},
    "cron": {"cron": "*/5 * * * *"},
}

Rows = dict[str, dict[int, dict[str, Any]]]


@pytest.fixture
def first_release(transactional_db: None) -> Iterator[ProjectState]:
    """Migrate to the tables of the first release; restore the current ones afterwards."""
    _drop_tables()
    try:
        yield MigrationExecutor(connection).migrate([FIRST])
    finally:
        _drop_tables()
        _migrate_to_latest()


def _drop_tables() -> None:
    """Drop all tables instead of migrating backwards, which not every migration supports."""
    with connection.schema_editor() as editor:
        for table in connection.introspection.table_names():
            if table.startswith("schedules_"):
                editor.execute(editor.sql_delete_table % {"table": editor.quote_name(table)})
    MigrationRecorder(connection).migration_qs.filter(app="schedules").delete()


def _migrate_to_latest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate([node for node in executor.loader.graph.leaf_nodes() if node[0] == "schedules"])


def full(model: Any, number: int, **given: Any) -> Any:
    """Store a row with the largest value in every column, except those given."""
    columns = [field for field in model._meta.concrete_fields if not field.primary_key]
    values = {
        field.name: _largest_value(field, number)
        for field in columns
        if field.name not in given and field.attname not in given
    }
    return model.objects.create(**values, **given)


def _largest_value(field: Any, number: int) -> Any:
    match field:
        case models.ForeignKey():
            return None
        case models.CharField():
            return f"{number} {ODD_TEXT * 10}"[: field.max_length]
        case models.TextField():
            return f"{number} {ODD_TEXT * 200}"
        case models.JSONField():
            return ODD_JSON
        case models.DateTimeField():
            return ODD_MOMENT
        case models.DurationField():
            return FOREVER
        case models.PositiveSmallIntegerField():
            return 2**15 - 1
        case models.PositiveBigIntegerField():
            return 2**63 - 1
        case models.PositiveIntegerField():
            return 2**31 - 1
        case models.FloatField():
            return -1.5e300
        case models.BooleanField():
            return True
    raise AssertionError(f"the first release had no {field!r}")


def fill(apps: Apps) -> None:
    """Store rows of every table, status and kind, as the first release could."""
    person = apps.get_model("auth", "User").objects.create(username="olga", password="!")
    full(apps.get_model("schedules", "Profile"), 1, user=person, timezone="Europe/Berlin")
    cluster = full(apps.get_model("schedules", "Cluster"), 1, stopped_at=None)
    number = 0
    for status in ("pending", "running", "paused", "completed", "failed", "cancelled"):
        for kind in TRIGGERS:
            for deleted_at in (None, ODD_MOMENT):
                number += 1
                full(
                    apps.get_model("schedules", "Job"),
                    number,
                    owner=person,
                    **_job(kind, status),
                    deleted_at=deleted_at,
                )
    job = apps.get_model("schedules", "Job").objects.first()
    for status in dict(apps.get_model("schedules", "Execution")._meta.get_field("status").choices):
        for cause in ("schedule", "manual", "catch_up"):
            number += 1
            full(
                apps.get_model("schedules", "Execution"),
                number,
                **{"job": None if cause == "manual" else job, "owner": person, "cluster": cluster},
                **{"status": status, "cause": cause, "scheduled_for": NOW + timedelta(microseconds=number)},
            )
    run = apps.get_model("schedules", "Execution").objects.first()
    full(apps.get_model("schedules", "RunOutput"), 1, execution_id=run.pk)
    full(apps.get_model("schedules", "Secret"), 1, owner=person)
    full(apps.get_model("schedules", "Secret"), 2)
    full(apps.get_model("schedules", "Installation"), 1, pk=1)
    full(apps.get_model("schedules", "MachineStart"), 1)
    full(apps.get_model("schedules", "UserSession"), 1, session_key="key")
    for door in ("web", "admin", "mcp", "command", "engine"):
        full(apps.get_model("schedules", "Event"), number, owner=person, job=job, door=door)
    for kind in ("conversation", "heartbeat"):
        number += 1
        full(apps.get_model("schedules", "Token"), number, owner=person, kind=kind)


def _job(kind: str, status: str) -> dict[str, Any]:
    return {
        **{
            "trigger_type": kind,
            "run_at": None,
            "every": None,
            "anchor_at": None,
            "cron": "",
            "spread": timedelta(days=1),
        },
        **TRIGGERS[kind],
        **{"status": status, "next_run_at": ODD_MOMENT if status == "pending" else None},
        **{"attempts": 10, "overlap": "queue", "catch_up": "none"},
        **{"timezone": "America/Argentina/ComodRivadavia", "recent": "S" * 30},
    }


def rows_of(apps: Apps) -> Rows:
    """Read every row of every table, by the columns that the models have."""
    stored = {model.__name__: model for model in apps.get_app_config("schedules").get_models()}
    return {
        name: {row[str(model._meta.pk.attname)]: row for row in model.objects.values()}
        for name, model in stored.items()
    }


def losses(before: Rows, after: Rows) -> list[str]:
    """Return every table, row and value that differs."""
    return [
        f"{table} {key} {column}"
        for table, rows in before.items()
        for key, row in rows.items()
        for column, value in row.items()
        if after.get(table, {}).get(key, {}).get(column, losses) != value
    ]


def test_every_row_and_value_of_the_first_release_is_kept(first_release, capsys):
    fill(first_release.apps)
    before = rows_of(first_release.apps)
    assert {name: len(rows) > 0 for name, rows in before.items()} == dict.fromkeys(NAMES, True)

    _migrate_to_latest()

    assert losses(before, rows_of(current_apps)) == []
    # The models and the migrated tables agree.
    call_command("check", databases=["default"])
    call_command("makemigrations", check_changes=True, dry_run=True)
    call_command("migrate", check_unapplied=True, verbosity=0)
    assert "No changes detected" in capsys.readouterr().out


LOSSY = {
    "a column that goes": migrations.RemoveField("job", "label"),
    "a column that is renamed": migrations.RenameField("execution", "reason", "why"),
    "a table that goes": migrations.DeleteModel("Event"),
    "a row that goes": migrations.RunSQL("DELETE FROM schedules_token WHERE kind = 'heartbeat'"),
    "a text that is cut": migrations.RunSQL(
        "UPDATE schedules_job SET pause_reason = substr(pause_reason, 1, 199)"
    ),
}


def test_lossy_migration_is_detected(first_release):
    fill(first_release.apps)
    state, unnoticed = first_release, []

    for name, operation in LOSSY.items():
        before = rows_of(state.apps)
        lossy = Migration("0002_lossy", "schedules")
        lossy.operations = [operation]
        with connection.schema_editor() as editor:
            state = lossy.apply(state.clone(), editor)
        if not losses(before, rows_of(state.apps)):
            unnoticed.append(name)

    assert unnoticed == []


@pytest.mark.verify
def test_current_code_works_after_the_upgrade(first_release):
    apps = first_release.apps
    person = apps.get_model("auth", "User").objects.create(username="olga", password="!")
    full(apps.get_model("schedules", "Profile"), 1, user=person, timezone="Europe/Berlin")
    now = clock.now()
    due = _plain_job(apps, person, 1, next_run_at=now - timedelta(seconds=1))
    later = _plain_job(apps, person, 2, next_run_at=now + timedelta(hours=1))
    queued = _plain_run(apps, later, status="queued", available_at=now - timedelta(seconds=1))
    _migrate_to_latest()

    cluster = Cluster.objects.create(
        host="host", pid=1, started_at=now, last_seen_at=now, probe_returned_at=now
    )
    claimed = engine.claim_runs(cluster.pk, now, 10)
    page = _browser_of(person.pk).get("/")
    answers = _statuses(person.pk, [due.public_id, later.public_id])

    assert {Execution.objects.get(pk=claim.execution_id).job_id for claim in claimed} == {due.pk, later.pk}
    assert queued.pk in {claim.execution_id for claim in claimed}
    assert page.status_code == 200
    assert {due.name, later.name} == {job.name for job in page.context["listed"].rows}
    assert [(answer["job_id"], answer["error"]) for answer in answers] == [
        (due.public_id, None),
        (later.public_id, None),
    ]


def _plain_job(apps: Apps, person: Any, number: int, **given: Any) -> Any:
    values = {**_job("cron", "pending"), "task": "tests.ping", "args": [1], "kwargs": {}, "tags": ["überall"]}
    values |= {
        "catch_up": "once",
        "deleted_at": None,
        "ends_at": None,
        "last_error": "",
        "timeout": timedelta(minutes=1),
    }
    values |= {"slot_count": 0, "run_count": 0, "created_at": NOW, "updated_at": NOW, "paused_until": None}
    values |= {"public_id": f"job_{number}_".ljust(64, "0")}
    return full(apps.get_model("schedules", "Job"), number, owner=person, **values | given)


def _plain_run(apps: Apps, job: Any, **given: Any) -> Any:
    return apps.get_model("schedules", "Execution").objects.create(
        job=job, owner=job.owner, job_name=job.name, task=job.task, scheduled_for=NOW, cause="manual", **given
    )


def _browser_of(person_id: int) -> Client:
    browser = Client()
    browser.force_login(current_apps.get_model("auth", "User").objects.get(pk=person_id))
    return browser


def _statuses(person_id: int, job_ids: list[str]) -> list[Any]:
    set_local_caller(
        local_caller(current_apps.get_model("auth", "User").objects.get(pk=person_id), name="laptop")
    )
    try:
        return [InMemory("modern").call("job_status", job_id=job_id) for job_id in job_ids]
    finally:
        set_local_caller(None)


def test_first_migration_is_unchanged_since_its_release():
    source = (Path(released.__path__[0]) / f"{FIRST[1]}.py").read_text()

    digest = hashlib.sha256(ast.unparse(ast.parse(source)).encode()).hexdigest()

    assert digest == FIRST_DIGEST, "0001 is released; add a new migration"
