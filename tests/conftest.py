"""Fixtures for every test: the database and settings, people, and the actors they act as."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings

from schedules import clock
from schedules.models import Event
from schedules.services import Actor
from tests.factories import UserFactory

# Coverage makes a test take half as long again. `make test` measures it where tests are quick and close to their source,
# and `make coverage` everywhere.
WITH_COVERAGE = tuple(f"tests/{name}/" for name in ("engine", "models", "services", "tasks", "when"))
WITH_COVERAGE_ON_POSTGRESQL = ("tests/engine/", "tests/models/")
IS_MEASURED_EVERYWHERE = "COVER_EVERYTHING" in os.environ


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure coverage only where it is cheap, and start the fault campaign first, because it takes longest."""
    measured = WITH_COVERAGE_ON_POSTGRESQL if connection.vendor == "postgresql" else WITH_COVERAGE
    for item in items:
        if not (IS_MEASURED_EVERYWHERE or item.nodeid.startswith(measured)):
            item.add_marker(pytest.mark.no_cover)
    items.sort(key=lambda item: item.get_closest_marker("faults") is None)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Use a file for SQLite: a database in memory has neither a write-ahead log nor a second connection."""
    from django.conf import settings  # noqa: PLC0415

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["TEST"]["NAME"] = str(Path(tmp_path_factory.mktemp("db")) / "test.sqlite3")
        # No test data has to survive a power cut.
        database["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"


@pytest.fixture(scope="session", autouse=True)
def cheap_settings() -> Iterator[None]:
    """Serve static files without a manifest, which nothing here has collected, and hash passwords quickly."""
    hashers = "django.contrib.auth.hashers"
    with override_settings(
        STORAGES={
            "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
            "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        },
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
