"""Builds the MCP bundle: a small client of this server that Claude Desktop installs from one file."""

import json
from importlib.resources import files
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from django.conf import settings
from django.contrib.staticfiles import finders

from schedules import __version__
from schedules.services.people.connected_apps import mcp_address


def build_bundle() -> bytes:
    """Return the bundle; it contains no token, because the person enters one while installing it."""
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as bundle:
        bundle.writestr("manifest.json", json.dumps(manifest(), indent=2))
        bundle.writestr("server/index.js", files(__package__).joinpath("index.js").read_bytes())
        icon = finders.find("schedules/icon.png")
        assert isinstance(icon, str)
        bundle.write(icon, "icon.png")
    return content.getvalue()


def manifest() -> dict[str, Any]:
    return {
        "manifest_version": "0.3",
        "name": "cronty",
        "display_name": "Cronty",
        "version": __version__,
        "description": "Cron you can talk to: schedules, reminders and prompts of your Cronty server.",
        "author": {"name": "Cronty", "url": settings.CRONTY_URL},
        "homepage": settings.CRONTY_URL,
        "icon": "icon.png",
        "server": {
            "type": "node",
            "entry_point": "server/index.js",
            "mcp_config": {
                "command": "node",
                "args": ["${__dirname}/server/index.js"],
                "env": {"CRONTY_MCP_URL": mcp_address(), "CRONTY_TOKEN": "${user_config.token}"},  # nosec B105  # a placeholder that the client fills in
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"runtimes": {"node": ">=18.0.0"}},
        "user_config": {
            "token": {
                "type": "string",
                "title": "Token",
                "description": f"Make one at {settings.CRONTY_URL}/connect/",
                "sensitive": True,
                "required": True,
            }
        },
    }
