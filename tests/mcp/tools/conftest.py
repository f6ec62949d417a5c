"""The protocol era of the agents that call tools."""

import pytest

from tests.mcp.agents import IS_FULL


@pytest.fixture(params=["modern", "legacy"] if IS_FULL else ["modern"])
def era(request: pytest.FixtureRequest) -> str:
    """The modern era: tests/mcp/test_fuzz.py calls every tool in both. MCP_MATRIX=full, in `make conformance`, is both."""
    return str(request.param)
