"""The recorded contract with agents: `python -m tests.mcp.contract` rewrites contract.json and the early answers."""

import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import django

FILE = Path(__file__).with_name("contract.json")


def current() -> dict[str, Any]:
    """Return the contract of the current server."""
    from mcp.server import MCPServer  # noqa: PLC0415

    from schedules.mcp.server import build_server  # noqa: PLC0415
    from schedules.mcp.wording import INSTRUCTIONS  # noqa: PLC0415

    server = build_server()

    async def gather() -> dict[str, Any]:
        parts = {
            # List the tools as the SDK does, without the permissions of a caller.
            "tools": await MCPServer.list_tools(server),
            "resources": await server.list_resources(),
            "resourceTemplates": await server.list_resource_templates(),
            "prompts": await server.list_prompts(),
        }
        return {
            name: [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
            for name, items in parts.items()
        }

    return {"instructions": INSTRUCTIONS, **asyncio.run(gather())}


def recorded() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
    django.setup()
    FILE.write_text(json.dumps(current(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    from tests.mcp import early_answers, processes  # noqa: PLC0415

    with TemporaryDirectory() as folder, processes.prepared(Path(folder)) as site:
        early_answers.write(site)


if __name__ == "__main__":
    main()
