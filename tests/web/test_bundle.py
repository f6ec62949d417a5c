"""The MCP bundle: its manifest, and the client inside it against a running server."""

import asyncio
import io
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from mcp import Client as Agent
from mcp import MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from schedules.web.bundle import build_bundle
from tests.mcp.agents import mode_of
from tests.mcp.processes import Site, prepared, serving

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(not NODE, reason="needs Node")


def test_page_offers_a_bundle_for_this_server_without_a_token(web: Client, settings: Any):
    settings.CRONTY_URL = "https://cronty.example"

    answer = web.get("/connect/cronty.mcpb")

    bundle = zipfile.ZipFile(io.BytesIO(answer.content))
    described = json.loads(bundle.read("manifest.json"))
    assert bundle.testzip() is None
    assert described["server"]["entry_point"] in bundle.namelist()
    assert described["icon"] in bundle.namelist()
    assert described["server"]["mcp_config"]["env"] == {
        "CRONTY_MCP_URL": "https://cronty.example/mcp",
        "CRONTY_TOKEN": "${user_config.token}",
    }
    assert "cronty.mcpb" in web.get("/connect/").content.decode()


def test_manifest_is_valid_for_the_official_tool(tmp_path: Path):
    tool = Path(".cache/node_modules/.bin/mcpb")
    if not tool.exists():
        pytest.skip("run `make conformance` once: it installs the official tool")
    zipfile.ZipFile(io.BytesIO(build_bundle())).extractall(tmp_path)

    checked = subprocess.run(
        [tool.resolve(), "validate", "manifest.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with prepared(tmp_path_factory.mktemp("bundle")) as site:
        yield site


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    with serving(site) as (_, address):
        yield address


def client_of(address: str, token: str) -> StdioServerParameters:
    script = Path(__file__).parents[2] / "schedules/web/bundle/index.js"
    return StdioServerParameters(
        command=str(NODE),
        args=[str(script)],
        env={"CRONTY_MCP_URL": address, "CRONTY_TOKEN": token},
        cwd=tempfile.gettempdir(),
    )


@needs_node
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_client_passes_calls_on_and_answers_back(site, address, era):
    async def talk() -> tuple[int, list[Any], Any]:
        async with Agent(stdio_client(client_of(address, site.token)), **mode_of(era)) as agent:
            tools = await agent.list_tools()
            answers = await asyncio.gather(
                *(agent.call_tool("get_current_time", {"timezone": zone}) for zone in ("Asia/Tokyo", "UTC"))
            )
            refused = await agent.call_tool("job_status", {"job_id": "naïve – ☃"})
            return len(tools.tools), answers, refused

    count, answers, refused = asyncio.run(talk())

    assert count > 20
    assert not any(answer.is_error for answer in answers)
    assert "Asia/Tokyo" in str(answers[0].structured_content)
    assert "not found" in str(refused.content).lower() + str(refused.structured_content).lower()


@needs_node
@pytest.mark.parametrize(
    ("port", "token", "words"),
    [(None, "cronty_00000000_wrong", "refused the token"), ("1", "any", "does not answer")],
    ids=["wrong token", "no server"],
)
def test_client_says_what_is_wrong(address, port, token, words):
    target = re.sub(r":\d+/", f":{port}/", address) if port else address

    async def talk() -> None:
        async with Agent(stdio_client(client_of(target, token)), mode="legacy"):
            pass

    with pytest.raises((MCPError, ExceptionGroup)) as refusal:
        asyncio.run(talk())
    assert words in str(list(_leaves(refusal.value)))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
