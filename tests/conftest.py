"""What every test can ask for: people, and the doors they act through."""

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from schedules.models import Event
from schedules.services import Actor
from tests.factories import UserFactory


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SQLite is tested as a file: in memory it has neither a write-ahead log nor a second connection."""
    from django.conf import settings  # noqa: PLC0415

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["TEST"]["NAME"] = str(Path(tmp_path_factory.mktemp("db")) / "test.sqlite3")
        # Nothing here must survive a power cut.
        database["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"


@pytest.fixture(autouse=True)
def plain_static_files(settings: LazySettings) -> None:
    settings.STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    hashers = "django.contrib.auth.hashers"
    settings.PASSWORD_HASHERS = [f"{hashers}.MD5PasswordHasher", f"{hashers}.PBKDF2PasswordHasher"]


@pytest.fixture
def owner(db: None) -> User:
    """The person whose jobs a test is about."""
    return UserFactory(username="olga")


@pytest.fixture
def stranger(db: None) -> User:
    """Somebody else, who must not see or touch them."""
    return UserFactory(username="sam")


@pytest.fixture
def operator(db: None) -> User:
    """Staff: looks after everybody's jobs."""
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
