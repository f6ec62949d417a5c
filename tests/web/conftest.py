"""A cluster that stays alive on a slow machine."""

from datetime import timedelta

import pytest


@pytest.fixture(autouse=True)
def lasting_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a cluster running while a slow machine answers its first request."""
    monkeypatch.setattr("schedules.models.clusters.FRESH_FOR", timedelta(minutes=10))
