"""People in front of the pages."""

import pytest
from django.contrib.auth.models import User
from django.test import Client


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def web(owner: User) -> Client:
    """The owner at the pages."""
    return browser_of(owner)


@pytest.fixture
def other(stranger: User) -> Client:
    """Somebody else at the pages."""
    return browser_of(stranger)


@pytest.fixture
def staff(operator: User) -> Client:
    return browser_of(operator)
