"""Fixtures for every test: the database and settings, people, and the actors they act as."""

import gc
import json
import os
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush
from django.test import Client, override_settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from jsonschema import Draft202012Validator

from schedules import clock
from schedules.agents.catalog import catalog as runner_catalog
from schedules.models import Event
from schedules.services import Actor
from schedules.tasks.commands import catalog as command_catalog
from schedules.tasks.operator_files import watching
from tests.databases import copy_on_server, copy_to
from tests.factories import UserFactory
from tests.waiting import PATIENCE

# Hypothesis measures seconds by default, and a machine that stands still for one would fail any of its tests.
hypothesis_settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("any machine")

# Tests that mostly wait for processes, clusters and browsers. Half of the workers start with them, so that the others
# always have enough to compute for all cores. A folder stays with one worker, which starts one browser for it.
WAITING = (
    "tests/worker/test_cluster.py",
    "tests/browser/",
    "tests/worker/test_cluster_on_postgresql.py",
    "tests/worker/test_capacity.py",
    "tests/worker/test_event_deliveries.py",
    "verification/faults/test_campaign.py",
    "tests/management/",
    "tests/site/serving/test_server.py",
    "tests/mcp/test_stdio.py",
    "tests/tasks/processes/test_running.py",
    "tests/tasks/test_time_limit.py",
    "tests/web/test_oauth.py",
    "tests/examples/test_embedded.py",
    "tests/site/test_own_apps.py",
    "tests/mcp/test_http.py",
)
# Single tests that compute for seconds. The other half starts with them, so that none of them is left for the end.
COMPUTING = (
    "tests/test_growth.py",
    "tests/security/test_authorization.py",
    "tests/mcp/test_fuzz.py",
    "tests/mcp/test_conformance.py",
    "tests/mcp/test_advice.py",
    "tests/api/test_schema.py",
    "tests/security/test_hostile_requests.py",
    "tests/security/test_authorization_of_tools.py",
    "tests/fuzz/",
    "verification/model/",
)


# Imported modules and collected tests stay alive: searching them for garbage would take seconds.
gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    result = yield
    gc.freeze()
    # The default of 700 objects would spend a tenth of all processor time on garbage collection.
    gc.set_threshold(50_000)
    gc.enable()
    return result


# Last, because a mark may leave tests out.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each worker a share of the tests that take longest to start with."""
    items[:] = _longest_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _longest_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order the tests for `--dist worksteal`, which gives each worker an equal part of the list, in order."""
    if workers == 1:
        return items
    waiters = workers // 2
    starts = _shares(items, WAITING, waiters) + _shares(items, COMPUTING, workers - waiters)
    others = iter([item for item in items if not item.nodeid.startswith(WAITING + COMPUTING)])
    ordered: list[pytest.Item] = []
    for place, start in enumerate(starts):
        size = (len(items) - len(ordered)) // (workers - place)
        ordered += start + list(islice(others, max(0, size - len(start))))
    return ordered + list(others)


def _shares(items: list[pytest.Item], places: tuple[str, ...], workers: int) -> list[list[pytest.Item]]:
    """Deal the tests of these files and folders to so many workers, each file or folder to one of them."""
    found = [[item for item in items if item.nodeid.startswith(place)] for place in places]
    present = [tests for tests in found if tests]
    return [[item for tests in present[number::workers] for item in tests] for number in range(workers)]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Use a file for SQLite: a database in memory has neither a write-ahead log nor a second connection."""
    from django.conf import settings  # noqa: PLC0415

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        path = Path(tmp_path_factory.mktemp("db")) / "test.sqlite3"
        if "PYTEST_XDIST_WORKER" in os.environ:
            # The others need it, too; a single process would only start another one for it.
            copy_to(path)
        database["TEST"]["NAME"] = str(path)
        # No test data has to survive a power cut.
        database["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
        # Dozens of threads wait for one another in some tests.
        database["OPTIONS"]["timeout"] = PATIENCE
    elif "PYTEST_XDIST_WORKER" in os.environ:
        copy_on_server(database)


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Iterator[None]:
    """Empty only the tables with rows after a transactional test: all of them, with their permissions, take 50 ms."""
    tables: list[str] = []

    def sql_flush(style: Any, connection: Any, **options: Any) -> list[str]:
        if not tables:
            tables.extend(
                connection.introspection.django_table_names(only_existing=True, include_views=False)
            )
            for kept in (ContentType, Permission):
                tables.remove(kept._meta.db_table)
        # Names of our own tables.
        parts = [f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {name})" for name in tables]  # noqa: S608
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts))
            return [f"DELETE FROM {name}" for (name,) in cursor.fetchall()]  # noqa: S608

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *options: None)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the migrated database that was put in the place of the test database."""
    from django.db import connection  # noqa: PLC0415

    return connection.vendor == "sqlite" or "PYTEST_XDIST_WORKER" in os.environ


@pytest.fixture(scope="session", autouse=True)
def cheap_settings() -> Iterator[None]:
    """Serve static files without a manifest or a list of them, and hash passwords quickly."""
    hashers = "django.contrib.auth.hashers"
    with override_settings(
        STORAGES={
            "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
            "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        },
        # Once a test has collected static files, every new client would list them again, which takes 0.1 s.
        WHITENOISE_AUTOREFRESH=True,
        PASSWORD_HASHERS=[f"{hashers}.MD5PasswordHasher", f"{hashers}.PBKDF2PasswordHasher"],
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def measure() -> Iterator[Callable[[], None]]:
    """Keep the host's clock, which tests move, also on PostgreSQL; return what would read the database's clock."""
    real = clock.measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "measure", lambda over=None: None)
        yield real


@pytest.fixture(scope="session", autouse=True)
def schemas_checked_once() -> Iterator[None]:
    """Check each schema of a tool once: every new client checks the schemas of the tools it calls, for 20 ms each."""
    check = Draft202012Validator.check_schema
    valid: set[str] = set()

    def check_once(schema: Any, *arguments: Any, **options: Any) -> None:
        text = json.dumps(schema)
        if text not in valid:
            check(schema, *arguments, **options)
            valid.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", check_once)
        yield


@pytest.fixture
def commands_file(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of the operator's file of commands, which does not exist yet; every look reads it again."""
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.0)
    path = tmp_path / "commands.toml"
    settings.CRONTY_COMMANDS_FILE = str(path)
    yield path
    settings.CRONTY_COMMANDS_FILE = ""
    command_catalog.catalog.refresh()


@pytest.fixture
def use_commands(commands_file: Path) -> Callable[[str], None]:
    """Write the operator's file of commands and put it into force."""

    def use(text: str) -> None:
        commands_file.write_text(text)
        commands_file.chmod(0o600)
        command_catalog.catalog.refresh()
        assert command_catalog.catalog.problem == ""

    return use


@pytest.fixture
def runners_file(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of the operator's file of runners, which does not exist yet; every look reads it again."""
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.0)
    path = tmp_path / "runners.toml"
    settings.CRONTY_RUNNERS_FILE = str(path)
    yield path
    settings.CRONTY_RUNNERS_FILE = ""
    runner_catalog.refresh()


@pytest.fixture
def use_runners(runners_file: Path) -> Callable[[str], None]:
    """Write the operator's file of runners and put it into force."""

    def use(text: str) -> None:
        runners_file.write_text(text)
        runners_file.chmod(0o600)
        runner_catalog.refresh()
        assert runner_catalog.problem == ""

    return use


@pytest.fixture
def owner(db: None) -> User:
    """The person whose jobs a test is about."""
    return UserFactory(username="olga")


@pytest.fixture
def stranger(db: None) -> User:
    """Another person, who must not see or change the owner's jobs."""
    return UserFactory(username="sam")


@pytest.fixture
def operator(db: None) -> User:
    """A superuser, who manages everybody's jobs."""
    return UserFactory(username="otto", is_staff=True, is_superuser=True)


@pytest.fixture
def actor(owner: User) -> Actor:
    return Actor(owner, Event.Door.WEB)


@pytest.fixture
def agent(owner: User) -> Actor:
    return Actor(owner, Event.Door.MCP, name="laptop")


@pytest.fixture
def web(owner: User) -> Client:
    """A browser session of the owner."""
    return session_of(owner)


@pytest.fixture
def other(stranger: User) -> Client:
    """A browser session of somebody else."""
    return session_of(stranger)


@pytest.fixture
def staff(operator: User) -> Client:
    """A browser session of the operator."""
    return session_of(operator)


def session_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client
