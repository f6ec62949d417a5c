"""Wrappers around the official MCP client for tests."""

import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from asgiref.sync import async_to_sync
from mcp import Client, MCPError
from mcp_types import CallToolResult

from schedules.mcp.server import CrontyServer, build_server

T = TypeVar("T")

# Whether tests run over every transport and in every protocol era, also where one of each finds the same faults.
IS_FULL = os.environ.get("MCP_MATRIX") == "full"


def mode_of(era: str) -> dict[str, Any]:
    return {"mode": "legacy"} if era == "legacy" else {}


def answer_of(result: CallToolResult) -> Any:
    """Return the object or text that a tool answered, refusals included; raise a tool error without either."""
    structured = result.structured_content
    if structured is None:
        assert result.is_error
        raise ToolRefusalError(text_of(result))
    return structured["result"] if set(structured) == {"result"} else structured


def text_of(result: CallToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


class ToolRefusalError(Exception):
    """A tool error: isError is set on the wire."""


async def connected(connect: Callable[[], Client], work: Callable[[Client], Awaitable[T]]) -> T:
    """Run some work with a client, and raise its exceptions outside the client's task group."""
    async with connect() as client:
        try:
            result = await work(client)
        except MCPError as error:
            refusal = error
        else:
            return result
    raise refusal


@functools.cache
def shared_server() -> CrontyServer:
    """Return a server for all clients of this process, as in production; it takes a while to build."""
    return build_server()


@dataclass
class InMemory:
    """A client of a server in this process; each call opens a new connection."""

    era: str
    server: CrontyServer = field(default_factory=shared_server)
    options: dict[str, Any] = field(default_factory=dict)

    def call(self, name: str, /, **arguments: Any) -> Any:
        return answer_of(self.raw(name, arguments))

    def raw(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        return self.do(lambda client: client.call_tool(name, arguments))

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run some work with a connected client."""

        return async_to_sync(connected)(
            lambda: Client(self.server, **mode_of(self.era), **self.options), work
        )
