"""The protocol era of the agents that call tools, and the moment at which they do."""

from collections.abc import Iterator

import pytest
import time_machine

from tests.mcp.agents import IS_FULL


@pytest.fixture(params=["modern", "legacy"] if IS_FULL else ["modern"])
def era(request: pytest.FixtureRequest) -> str:
    """The modern era: tests/mcp/test_fuzz.py calls every tool in both. MCP_MATRIX=full, in `make conformance`, is both."""
    return str(request.param)


@pytest.fixture
def noon() -> Iterator[None]:
    """Wednesday, 4 February 2026, 12:00 in Berlin."""
    with time_machine.travel("2026-02-04T11:00:00+00:00", tick=False):
        yield
