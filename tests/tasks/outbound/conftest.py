"""A server to send to, a controlled resolver, and a record of every connection."""

import asyncio
import socket

import pytest

from schedules.tasks.outbound import send
from tests.sink import Sink

PUBLIC = "93.184.216.34"


@pytest.fixture(scope="module")
def module_sink():
    with Sink() as sink:
        yield sink


@pytest.fixture
def sink(module_sink):
    """A server on loopback that counts connections: the private service that must not be reached."""
    module_sink.reset()
    return module_sink


@pytest.fixture
def allowed(settings, sink):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    return sink


@pytest.fixture
def names(monkeypatch):
    """A resolver that knows only these names; each lookup takes the next answer, and the last one repeats."""
    known: dict[str, list[list[str]]] = {}
    asked: list[str] = []

    def getaddrinfo(host, port, **options):
        asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = known[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    known["asked"] = asked  # type: ignore[assignment]
    return known


@pytest.fixture
def wire(monkeypatch):
    """Record connections; allow those to 127.0.0.1 and refuse all others, so that no test leaves the machine."""
    connected: list[str] = []
    connect = asyncio.BaseEventLoop.create_connection

    async def create_connection(self, factory, host, *args, **options):
        connected.append(host)
        if host != "127.0.0.1":
            raise ConnectionError("not in a test")
        return await connect(self, factory, host, *args, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create_connection)
    return connected


def get(url, **options):
    return asyncio.run(send("GET", url, **options))
