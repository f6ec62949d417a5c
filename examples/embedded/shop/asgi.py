"""The web process of the shop, with Cronty's MCP server at /mcp."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
pages = get_asgi_application()

# After Django is set up, because the server imports models.
from cronty_site.serving.guards import Guards  # noqa: E402
from schedules.mcp.http import build_http_app  # noqa: E402

application = Guards(build_http_app(elsewhere=pages))
