"""The official client over stdio, for tests that are not async."""

from dataclasses import dataclass
from typing import Any

from anyio.from_thread import BlockingPortal
from mcp import Client

from tests.mcp.agents import answer_of


@dataclass
class OverStdio:
    """A client connected to a server process."""

    portal: BlockingPortal
    client: Client

    def call(self, name: str, /, **arguments: Any) -> Any:
        return answer_of(self.portal.call(self.client.call_tool, name, arguments))
