"""The web process: Django's pages, and /mcp beside them."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
pages: Any = get_asgi_application()

# After Django is set up, because the tools import models.
from schedules.tools.server import build_http_app  # noqa: E402

MCP_PATH = "/mcp"


def build_application() -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Join the two doors; one object serves one run of the process."""
    agents = build_http_app()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            # Only the agents' door has something to start and stop.
            await agents(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] != MCP_PATH:
            await pages(scope, receive, send)
        elif scope["method"] in {"POST", "OPTIONS"}:
            await agents(scope, receive, send)
        else:
            await _refuse_method(send)

    return application


async def _refuse_method(send: Any) -> None:
    # A GET would be an idle stream for ever; no client needs it.
    headers = [(b"allow", b"POST"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 405, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


application = build_application()
