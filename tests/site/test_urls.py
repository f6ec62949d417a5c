"""Pages that fail: an outage of the database, and any other error."""

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, ProgrammingError, connection
from django.test import AsyncClient, Client

pytestmark = pytest.mark.django_db


def get(client: Client | AsyncClient, error: Exception):
    """Open a page while the lookup of the session fails."""
    client.cookies["sessionid"] = "a" * 32
    ask = async_to_sync(client.get) if isinstance(client, AsyncClient) else client.get

    def refuse(*args):
        raise error

    with connection.execute_wrapper(refuse):
        return ask("/")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_page_asks_to_try_again_while_the_database_is_away(kind):
    answer = get(kind(raise_request_exception=False), OperationalError("connection refused"))

    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The database does not answer just now: try again in a moment." in answer.content.decode()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_page_with_another_error_points_to_the_log(kind):
    answer = get(kind(raise_request_exception=False), ProgrammingError("a mistake"))

    assert (answer.status_code, answer.has_header("Retry-After")) == (500, False)
    assert "Details are in the server log." in answer.content.decode()
