"""MCP over HTTP beside pages: the SDK, which takes a third of a web process's memory, is loaded at the first request to /mcp."""

import asyncio
import gc
import sys
from importlib import import_module
from typing import Any

MCP_PATH = "/mcp"


class McpOnDemand:
    """An ASGI app that serves /mcp once somebody asks for it; `elsewhere` serves every other path."""

    def __init__(self, elsewhere: Any) -> None:
        self._elsewhere = elsewhere
        self._mcp: _Started | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and scope["path"] == MCP_PATH:
            app = await self._load()
            await app(scope, receive, send)
        else:
            await self._elsewhere(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                if self._mcp:
                    await self._mcp.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _load(self) -> Any:
        async with self._loading:
            if self._mcp is None:
                http = await asyncio.to_thread(import_module, "schedules.mcp.http")
                started = _Started(http.build_http_app())
                await started.start()
                self._mcp = started
                # As at the start of the server: what was loaded is permanent.
                gc.freeze()
            return self._mcp.app


class _Started:
    """An ASGI app whose lifespan runs in a task of its own, because the server's began before the app existed."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self._lifespan: asyncio.Task[None] | None = None

    async def start(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._lifespan = asyncio.create_task(self.app(scope, self._received.get, self._sent.put))
        await self._ask("lifespan.startup")

    async def stop(self) -> None:
        await self._ask("lifespan.shutdown")

    async def _ask(self, event: str) -> None:
        await self._received.put({"type": event})
        answer = await self._sent.get()
        if answer["type"] != f"{event}.complete":
            raise RuntimeError(answer.get("message", event))


def end_streams() -> None:
    """End the subscriptions of this process, if MCP was loaded: a stopping server waits for open responses."""
    if subscriptions := sys.modules.get("schedules.mcp.subscriptions"):
        subscriptions.end_streams()
