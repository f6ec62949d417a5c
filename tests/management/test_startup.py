"""The start of a process: what it imports, and how it collects garbage."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from schedules.management.startup import without_garbage_collection
from tests.mcp.processes import ROOT, Site

# Each of them takes part of the second or two that an agent's client waits for the server.
NOT_FOR_STDIO = (
    "cronty_site.asgi",
    "cronty_site.urls",
    "django.test",
    "django_q.cluster",
    "django_q.monitor",
    "django_q.worker",
    "psycopg",
    "schedules.serving",
    "schedules.urls",
    "schedules.web",
    "schedules.worker.broker",
    "schedules.worker.loop",
    "whitenoise",
)
START = """
import sys
import django
django.setup()
import schedules.management.commands.mcp_serve
from schedules.mcp.server import build_server
build_server()
print(*sys.modules)
"""


def test_local_server_imports_only_what_it_needs(tmp_path):
    started = subprocess.run(
        [sys.executable, "-c", START],
        env=Site(tmp_path, "").environment,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    loaded = set(started.stdout.split())

    assert "schedules.mcp.server" in loaded
    assert loaded.isdisjoint(NOT_FOR_STDIO)


@pytest.fixture
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_garbage_is_collected_after_a_start_that_failed():
    with suppress(ValueError), without_garbage_collection():
        was_enabled = gc.isenabled()
        raise ValueError("wrong setting")

    assert not was_enabled
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
