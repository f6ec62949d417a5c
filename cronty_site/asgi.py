"""The ASGI application of the web process: Django's pages and the MCP server at /mcp, behind guards."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "cronty_site.settings")
pages: Any = get_asgi_application()

# After Django is set up, because the tools import models.
from cronty_site.serving.guards import Guards  # noqa: E402
from cronty_site.serving.threads import ReusedThreads  # noqa: E402
from schedules.mcp.on_demand import McpOnDemand  # noqa: E402
from schedules.secrets.private_files import restrict_to_owner  # noqa: E402
from schedules.web.pings.endpoint import PingEndpoint  # noqa: E402

restrict_to_owner()


def build_application() -> Any:
    """Build the application; each start of a server needs a new one."""
    return Guards(McpOnDemand(ReusedThreads(pages)), pings=PingEndpoint())


application = build_application()
