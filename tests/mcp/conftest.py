"""Agents that call tools, in both protocol eras."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from django.conf import LazySettings
from mcp import Client
from mcp.client.stdio import stdio_client

from schedules.mcp import answers
from schedules.mcp.auth import local_caller, set_local_caller
from schedules.services import Actor
from tests.factories import ClusterFactory
from tests.mcp.agents import InMemory, mode_of
from tests.mcp.over_stdio import OverStdio
from tests.mcp.processes import Site, prepared
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def many_calls(settings: LazySettings) -> None:
    """Raise the call limit: all tests in a process share one count."""
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture(autouse=True)
def fresh_clusters() -> None:
    """Forget which clusters a test before this one has seen in the same second."""
    answers._is_worker_running.cache_clear()


@pytest.fixture(autouse=True)
def lasting_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a cluster running while a slow machine builds a server."""
    monkeypatch.setattr("schedules.models.clusters.FRESH_FOR", timedelta(minutes=10))


@pytest.fixture(autouse=True)
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients wait for a slow server instead of taking it for one of the legacy era."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", PATIENCE)


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def caller(agent: Actor) -> Iterator[Actor]:
    """Olga's agent as the local caller of this process."""
    set_local_caller(local_caller(agent.user, name=agent.name))
    yield agent
    set_local_caller(None)


@pytest.fixture
def cluster(db: None) -> Any:
    return ClusterFactory()


@pytest.fixture
def olga(caller: Actor) -> InMemory:
    """Olga's agent, which calls tools through the official client; the scenarios and transports are tested in both eras."""
    return InMemory("modern")


@pytest.fixture
def call(caller: Actor, cluster: Any) -> Callable[..., Any]:
    """Call a tool in the modern era, with a running cluster; for tests that do not depend on the protocol era."""
    agent = InMemory("modern")
    return agent.call


@pytest.fixture
def unlimited(settings: LazySettings) -> None:
    settings.CRONTY_MAX_CREATES_PER_MINUTE = settings.CRONTY_MAX_ACTIVE_JOBS = 10**9


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A separate database for servers in separate processes."""
    with prepared(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="session")
def conversations(site: Site) -> Iterator[Callable[[str], OverStdio]]:
    """Clients of stdio server processes, one per era, shared by all tests that need no separate process."""
    with start_blocking_portal() as portal, ExitStack() as stack:

        @functools.cache
        def conversation(era: str) -> OverStdio:
            # One of the two is started exactly as an agent's client does.
            started = site.with_fresh_python if era == "modern" else site
            client = Client(stdio_client(started.stdio("--user", "olga")), **mode_of(era))
            return OverStdio(portal, stack.enter_context(portal.wrap_async_context_manager(client)))

        yield conversation
