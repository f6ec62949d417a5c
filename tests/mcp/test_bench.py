"""A small run of the tool benchmark: every tool is measured, and none fails."""

import asyncio

import pytest

from schedules.mcp.offers import OFFERS
from verification.bench import mcp
from verification.bench.mcp import ARGUMENTS, bench, over_stdio


def test_bench_covers_every_tool():
    # After it, only a person could let the next round claim prompts.
    assert set(ARGUMENTS) == {offer.name for offer in OFFERS} - {"stop_agents"}


@pytest.mark.verify
def test_bench_prints_the_milliseconds_of_every_tool_above_the_echo(capsys, monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(mcp, "WARM_UP", 0)

    above = asyncio.run(bench({"stdio": over_stdio}, jobs=100, calls=2))

    printed = capsys.readouterr().out
    assert set(above) == {f"stdio_{name}" for name in ARGUMENTS}
    assert all(f"mcp_stdio_{name}_above_echo " in printed for name in ARGUMENTS)
    assert "mcp_bar_sqlite 8 ms" in printed
