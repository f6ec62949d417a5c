"""The uvicorn server, with bounded connections, and a shutdown that ends subscriptions."""

import gc
import logging
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from django.conf import settings

from cronty_site.serving.connections import Connection, max_connections
from cronty_site.serving.guards import Guards
from cronty_site.serving.proxies import TrustProxies
from schedules.api import streams
from schedules.mcp.on_demand import end_streams

STOP_SECONDS = 3
KEEP_ALIVE_SECONDS = 75
logger = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """A server that ends open streams at shutdown, because it would wait for them forever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end_streams()
        streams.end_streams()
        await super().shutdown(sockets)


def serve(app: Any, *, host: str, port: int) -> None:
    """Serve an ASGI app behind the guards until a signal; open requests then have a few seconds to finish."""
    app = app if isinstance(app, Guards) else Guards(app)
    proxies = settings.CRONTY_TRUSTED_PROXIES
    if settings.CRONTY_URL.startswith("https:") and not proxies:
        logger.warning(
            "CRONTY_URL is https, but CRONTY_TRUSTED_PROXIES names no proxy: every request counts as plain http."
        )
    config = uvicorn.Config(
        TrustProxies(app, proxies),
        host=host,
        port=port,
        loop="asyncio",
        http=Connection,
        # TrustProxies does this instead, with checked addresses.
        proxy_headers=False,
        server_header=False,
        log_config=None,
        access_log=False,
        # Beyond it, every request gets 503; silent clients are the proxy's to limit.
        limit_concurrency=max_connections(),
        timeout_graceful_shutdown=STOP_SECONDS,
        # Longer than clients and proxies keep a connection, so that it is never closed while they send a request.
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    # All objects so far are permanent, and collecting them would pause all requests for a tenth of a second.
    gc.freeze()
    # uvicorn raises the signal again after it has stopped.
    with suppress(KeyboardInterrupt):
        Server(config).run()
