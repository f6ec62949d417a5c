"""A fixed time, and an operator who is logged in."""

from datetime import UTC, datetime

import pytest

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def now(time_machine) -> datetime:
    time_machine.move_to(NOW, tick=False)
    return NOW


@pytest.fixture
def operator_client(client, operator):
    """A browser in which the operator is logged in."""
    client.force_login(operator)
    return client
