"""Fixtures: Olga, who owns one row of everything, and the people who must not reach it.

Hundreds of tests look at the same rows without changing them for good, so a module creates the rows once, in a
transaction that it rolls back at its end, and each test runs in a savepoint inside it.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from http.cookies import SimpleCookie

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from tests.factories import UserFactory
from tests.security.owned_rows import OwnedRows, create_owned_rows


@dataclass
class Shared:
    """The rows of a module, and one session for each person."""

    owned: OwnedRows
    people: dict[str, User]
    sessions: dict[str, SimpleCookie]


@pytest.fixture(autouse=True)
def no_outside_effects(settings: LazySettings) -> None:
    """Refuse test notifications at once, and count no calls."""
    settings.NTFY_URL = "http://127.0.0.1:1"
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture(scope="module")
def shared(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Shared]:
    with django_db_blocker.unblock():
        block = transaction.atomic()
        block.__enter__()
        owned = create_owned_rows()
        people = {
            "owner": owned.owner,
            "stranger": UserFactory(username="sam"),
            "staff": UserFactory(username="otto", is_staff=True, is_superuser=True),
            # Staff without any permission in the admin.
            "clerk": UserFactory(username="carl", is_staff=True),
            # Staff who may view everything in the admin.
            "viewer": UserFactory(username="vera", is_staff=True),
        }
        people["viewer"].user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
        sessions = {name: _log_in(user) for name, user in people.items()}
    yield Shared(owned, people, sessions)
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        block.__exit__(None, None, None)
        connection.close()


def _log_in(user: User) -> SimpleCookie:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client.cookies


@pytest.fixture
def db(shared: Shared, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Run the test in a savepoint over the shared rows; replaces the fixture of pytest-django here."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def rows(db: None, shared: Shared) -> Shared:
    """A copy of the shared rows, which the test may change."""
    return deepcopy(shared)


@pytest.fixture
def owned(rows: Shared) -> OwnedRows:
    return rows.owned


@pytest.fixture
def people(rows: Shared) -> dict[str, User]:
    return rows.people


@pytest.fixture
def owner(people: dict[str, User]) -> User:
    return people["owner"]


@pytest.fixture
def stranger(people: dict[str, User]) -> User:
    return people["stranger"]


@pytest.fixture
def operator(people: dict[str, User]) -> User:
    return people["staff"]


@pytest.fixture
def visit(rows: Shared) -> Callable[[str], Client]:
    """Return a function that logs a person in to a new browser."""

    def open_browser(person: str) -> Client:
        client = Client()
        if person != "anonymous":
            client.cookies = SimpleCookie(rows.sessions[person].output(header=""))
        return client

    return open_browser
