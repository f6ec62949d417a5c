"""How does an agent on this machine start the server? It knows nothing of our interpreter and our environment."""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings


def local_server(username: str) -> dict[str, Any]:
    """Return the command, its arguments, and the variables without which it would open another database."""
    server: dict[str, Any] = {
        "command": sys.executable,
        "args": [str(settings.BASE_DIR / "manage.py"), "mcp_serve", "--user", username],
    }
    variables = _variables()
    return server | {"env": variables} if variables else server


def what_is_not_shown() -> str:
    """Say what else the server needs, if that may hold a password."""
    if _is_one_file():
        return ""
    return "It needs Cronty's DATABASE_URL, too, unless that stands in .env: it may hold a password, so it is not shown."


def _variables() -> dict[str, str]:
    found = {}
    data: Path = settings.CRONTY_DATA
    if data != (settings.BASE_DIR / "data").resolve():
        found["CRONTY_DATA"] = str(data)
    file = Path(settings.DATABASES["default"]["NAME"]).resolve()
    if _is_one_file() and file != (data / "cronty.sqlite3").resolve():
        found["DATABASE_URL"] = f"sqlite:///{file}"
    return found


def _is_one_file() -> bool:
    return bool(settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3")
