"""The official client over HTTP, against the ASGI app of the web process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
from asgiref.sync import async_to_sync
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cronty_site.asgi import build_application
from tests.mcp.agents import answer_of, connected, mode_of

T = TypeVar("T")

ADDRESS = "http://127.0.0.1:8000/mcp"


@dataclass
class OverHttp:
    """A client that sends a token to /mcp of the web process; each use starts and stops the app."""

    era: str
    token: str
    options: dict[str, Any] = field(default_factory=dict)

    def call(self, name: str, /, **arguments: Any) -> Any:
        return answer_of(self.do(lambda client: client.call_tool(name, arguments)))

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def serve_and_work() -> T:
            async with running(build_application()) as app, browser(app, self.token) as http:
                return await connected(lambda: http_client(http, self.era, **self.options), work)

        return async_to_sync(serve_and_work)()


def http_client(http: httpx2.AsyncClient, era: str, **options: Any) -> Client:
    return Client(streamable_http_client(ADDRESS, http_client=http), **mode_of(era), **options)


def browser(app: Any, token: str | None = None, **headers: str) -> httpx2.AsyncClient:
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers)


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[Any]:
    """Start and shut down an ASGI app, as a server does."""
    inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        await inbox.put({"type": "lifespan.shutdown"})
        assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
        await task


def modern_call(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return what httpx needs to post one tool call by hand."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": arguments or {}, "_meta": meta}
    return {
        "url": ADDRESS,
        "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | more,
        "headers": {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        },
    }
