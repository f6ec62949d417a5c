"""The web process: Django's pages, and /mcp beside them."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
pages: Any = get_asgi_application()

# After Django is set up, because the tools import models.
from schedules.mcp.http import build_http_app  # noqa: E402


def build_application() -> Any:
    """Join the two doors; one object serves one run of the process."""
    return build_http_app(elsewhere=pages)


application = build_application()
