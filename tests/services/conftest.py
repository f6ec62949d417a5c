"""A fixed clock, so that tests know every slot."""

from datetime import UTC, datetime

import pytest

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def now(time_machine) -> datetime:
    time_machine.move_to(NOW, tick=False)
    return NOW
