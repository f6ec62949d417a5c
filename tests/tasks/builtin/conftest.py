"""A run, a helper that calls a task as a worker does, and a server that records requests."""

import asyncio
from datetime import UTC, datetime

import pytest

from schedules.tasks import registry
from schedules.tasks.interface import Run
from tests.sink import Answer, Sink

RUN = Run(
    execution_id=42,
    key="execution-42",
    job_id="job_17_1738764000",
    job_name="Water the plants",
    attempt=1,
    scheduled_for=datetime(2026, 2, 4, 9, tzinfo=UTC),
    owner_id=1,
    signing_keys=lambda: ("job's key",),
    timeout=60.0,
)


@pytest.fixture
def sink(settings):
    """A local server, allowed by the operator and also used as the ntfy server."""
    with Sink(Answer(body=b'{"id": "abc"}')) as server:
        settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
        settings.NTFY_URL = server.url("")
        settings.NTFY_TOKEN = ""
        yield server


def perform(name, run=RUN, **kwargs):
    """Call a task as a worker does: by name, with validated arguments and its run."""
    return asyncio.run(registry.get(name).call(run, [], kwargs))


def problems(name, **kwargs):
    return registry.get(name).check([], kwargs)
