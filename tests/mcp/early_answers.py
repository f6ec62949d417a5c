"""What the server itself answers to the requests that `schedules/mcp/early.py` answers from a recording."""

import json
from typing import Any

from schedules.mcp.early import RECORDING
from schedules.services.people.tokens import FAMILIES
from tests.mcp.processes import Site

# With older versions, which hardly any client speaks, the answers differ.
VERSIONS = ["2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
CLIENT = {"name": "test", "version": "1"}
META = "io.modelcontextprotocol/"
STATELESS_PARAMS = {
    "_meta": {
        f"{META}protocolVersion": STATELESS,
        f"{META}clientInfo": CLIENT,
        f"{META}clientCapabilities": {},
    }
}


def hello(version: str) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}


def request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def from_server(site: Site) -> dict[str, Any]:
    """Return the recording as it should be."""
    initialized, tools = _results(site, ("initialize", hello(VERSIONS[-1])), ("tools/list", {}))
    assert [{**initialized, "protocolVersion": VERSIONS[0]}, tools] == _results(
        site, ("initialize", hello(VERSIONS[0])), ("tools/list", {})
    )
    discovered, stateless_tools = _results(
        site, ("server/discover", STATELESS_PARAMS), ("tools/list", STATELESS_PARAMS)
    )
    for info in initialized["serverInfo"], discovered["_meta"][f"{META}serverInfo"]:
        # These depend on settings, which are not read before an early answer.
        for name in "websiteUrl", "icons":
            del info[name]
    return {
        "versions": VERSIONS,
        "stateless version": STATELESS,
        "initialize": initialized,
        "tools/list": tools,
        "stateless server/discover": discovered,
        "stateless tools/list": stateless_tools,
    }


def _results(site: Site, *requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    lines = [json.dumps(request(number, *each)) + "\n" for number, each in enumerate(requests)]
    # With a list of families, the server answers everything itself.
    server = site.start("mcp_serve", "--tools", ",".join(FAMILIES))
    out, err = server.communicate("".join(lines).encode())
    assert out, err.decode()
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, out.splitlines())}
    return [answers[number] for number in range(len(requests))]


def write(site: Site) -> None:
    entries = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in from_server(site).items()
    ]
    RECORDING.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")
