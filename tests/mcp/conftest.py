"""An agent at the door, in both protocol eras."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from django.conf import LazySettings
from mcp import Client
from mcp.client.stdio import stdio_client

from schedules.mcp.auth import local_caller, set_local_caller
from schedules.services import Actor
from tests.factories import ClusterFactory
from tests.mcp.agents import InMemory, mode_of
from tests.mcp.over_stdio import OverStdio
from tests.mcp.processes import Site, prepare


@pytest.fixture(autouse=True)
def many_calls(settings: LazySettings) -> None:
    """The calls of all tests in a process count together."""
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def caller(agent: Actor) -> Iterator[Actor]:
    """Olga's agent, calling from the process that serves it."""
    set_local_caller(local_caller(agent.user, name=agent.name))
    yield agent
    set_local_caller(None)


@pytest.fixture
def worker(db: None) -> Any:
    return ClusterFactory()


@pytest.fixture
def olga(caller: Actor, era: str) -> InMemory:
    """Calls tools as Olga's agent would, through the official client."""
    return InMemory(era)


@pytest.fixture
def call(caller: Actor, worker: Any) -> Callable[..., Any]:
    """Call a tool in the modern era, with a worker running; for what does not depend on the wire."""
    agent = InMemory("modern")
    return agent.call


@pytest.fixture
def unlimited(settings: LazySettings) -> None:
    settings.CRONTY_MAX_CREATES_PER_MINUTE = settings.CRONTY_MAX_ACTIVE_JOBS = 10**9


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A database of its own, for servers in processes of their own."""
    return prepare(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def conversations(site: Site) -> Iterator[Callable[[str], OverStdio]]:
    """Clients of server processes over stdio, one per era, shared by all tests that need no process of their own."""
    with start_blocking_portal() as portal, ExitStack() as stack:

        @functools.cache
        def conversation(era: str) -> OverStdio:
            client = Client(stdio_client(site.stdio("--user", "olga")), **mode_of(era))
            return OverStdio(portal, stack.enter_context(portal.wrap_async_context_manager(client)))

        yield conversation
