"""Limits that only a hang reaches, and time-outs that leave a program time to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings

from schedules.tasks.outbound import connections
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def patient(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take nothing for silent or idle because the machine stood still; tests of these limits set their own."""
    settings.CRONTY_LEASE_SECONDS = 2 * PATIENCE
    settings.CRONTY_OUTBOUND_TIMEOUT = PATIENCE
    monkeypatch.setattr(connections, "IDLE_SECONDS", PATIENCE)


def timeouts(ready: Path) -> Iterator[int]:
    """Yield longer and longer time-outs for a program until it made this file in time."""
    for seconds in (1, 10, 100):
        yield seconds
        if ready.exists():
            return
    pytest.fail(f"no program made {ready} in time")
