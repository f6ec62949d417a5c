"""Olga, who owns things, and everybody who might be after them."""

from collections.abc import Callable

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client

from tests.factories import UserFactory
from tests.security.belongings import Belongings, make_belongings


@pytest.fixture(autouse=True)
def nothing_leaves_the_house(settings: LazySettings) -> None:
    """Nobody answers there, so that a test notification ends at once; and calls are not counted."""
    settings.NTFY_URL = "http://127.0.0.1:1"
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture
def hers(db: None) -> Belongings:
    return make_belongings()


@pytest.fixture
def clerk(db: None) -> User:
    """Staff, but without any permission in the back office."""
    return UserFactory(username="carl", is_staff=True)


@pytest.fixture
def people(hers: Belongings, stranger: User, operator: User, clerk: User) -> dict[str, User]:
    return {"owner": hers.owner, "stranger": stranger, "staff": operator, "clerk": clerk}


@pytest.fixture
def visit(people: dict[str, User]) -> Callable[[str], Client]:
    """Open a browser of somebody: each time a new one, with a session of its own."""

    def open_browser(person: str) -> Client:
        client = Client()
        if person != "anonymous":
            client.force_login(people[person], backend="django.contrib.auth.backends.ModelBackend")
        return client

    return open_browser
