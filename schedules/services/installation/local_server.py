"""The command line with which an agent's client on this machine starts the MCP server.

It names the interpreter and all variables, because the client does not have our environment.
"""

import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings

from schedules.services.installation.command_words import is_package


def local_server(username: str, *, tools: str = "") -> dict[str, Any]:
    """Return the command, its arguments, and the variables that it needs to open the same database.

    Without `tools`, the server offers all of them.
    """
    command, *arguments = _start()
    server: dict[str, Any] = {
        "command": command,
        "args": [*arguments, "--user", username, *(["--tools", tools] if tools else [])],
    }
    variables = _variables() if is_product() else {}
    if arguments[:2] == ["-m", "django"]:
        variables["DJANGO_SETTINGS_MODULE"] = os.environ["DJANGO_SETTINGS_MODULE"]
    return server | {"env": variables} if variables else server


def _start() -> list[str]:
    """Return the command line that starts the server, without its options."""
    if is_package():
        return _start_of_package(Path(sys.prefix))
    if is_product():
        return [sys.executable, *settings.CRONTY_MANAGE, "mcp_serve"]
    base = getattr(settings, "BASE_DIR", None)
    script = Path(base) / "manage.py" if base else None
    manage = [str(script)] if script and script.is_file() else ["-m", "django"]
    return [sys.executable, *manage, "mcp_serve"]


def _start_of_package(environment: Path) -> list[str]:
    """Return the start of an installed package."""
    script = environment / "bin" / "cronty"
    return [str(script), "mcp"] if script.is_file() else [sys.executable, "-m", "cronty_site", "mcp_serve"]


def omitted_variable_note() -> str:
    """Return a note about DATABASE_URL, which is omitted because it may contain a password, or an empty text."""
    if _is_sqlite() or not is_product():
        return ""
    return "Also set DATABASE_URL, unless it is in .env. It isn't shown because it may contain a password."


def _variables() -> dict[str, str]:
    variables = dict(settings.CRONTY_APPS_VARIABLES)
    data: Path = settings.CRONTY_DATA
    if data != (settings.BASE_DIR / "data").resolve():
        variables["CRONTY_DATA"] = str(data)
    file = Path(settings.DATABASES["default"]["NAME"]).resolve()
    if _is_sqlite() and file != (data / "cronty.sqlite3").resolve():
        variables["DATABASE_URL"] = f"sqlite:///{file}"
    return variables


def is_product() -> bool:
    """Return whether these are the product's own settings and not those of a project that embeds the app."""
    return hasattr(settings, "CRONTY_DATA")


def _is_sqlite() -> bool:
    return bool(settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3")
