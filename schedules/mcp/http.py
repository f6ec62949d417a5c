"""MCP over HTTP: the ASGI app that serves /mcp."""

from collections.abc import Collection

from django.conf import settings
from django.db import InterfaceError, OperationalError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from schedules.mcp.answers import DATABASE_AWAY
from schedules.mcp.server import CrontyServer, build_server
from schedules.services.tokens import FAMILIES

MCP_PATH = "/mcp"
NOT_FOUND = Response("Not found\n", status_code=404, media_type="text/plain")
ONLY_POST = Response(status_code=405, headers={"Allow": "POST"})


def build_http_app(
    *, families: Collection[str] = FAMILIES, hosts: Collection[str] = (), elsewhere: ASGIApp = NOT_FOUND
) -> ASGIApp:
    """Make the ASGI app with the agents' door at /mcp; one object serves one run of the process.

    `hosts` may be asked for besides those of the settings; `elsewhere` answers at every other path.
    """
    agents = serve_over_http(build_server(families=families, with_tokens=True), hosts)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # Only the agents' door has something to start and stop.
            await agents(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] != MCP_PATH:
            await elsewhere(scope, receive, send)
        elif scope["method"] in {"POST", "OPTIONS"}:
            await agents(scope, receive, send)
        else:
            # A GET would be an idle stream for ever; no client needs it.
            await ONLY_POST(scope, receive, send)

    return app


def serve_over_http(server: CrontyServer, hosts: Collection[str] = ()) -> Starlette:
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        max_request_body_size=settings.CRONTY_MCP_BODY_BYTES,
        transport_security=_transport_security([*_allowed_hosts(), *hosts]),
    )
    app.add_exception_handler(Exception, _sorry)
    return app


def _sorry(request: Request, error: Exception) -> Response:
    """Answer where no tool was reached: a token cannot be looked up without a database."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return PlainTextResponse(f"{DATABASE_AWAY.message}.\n", 503, headers={"Retry-After": "5"})
    return PlainTextResponse("Internal server error\n", 500)


def _allowed_hosts() -> list[str]:
    """Read ALLOWED_HOSTS as Django does: with DEBUG, an empty list allows this machine."""
    this_machine = ["localhost", "127.0.0.1", "[::1]"]
    return [*settings.ALLOWED_HOSTS] or (this_machine if settings.DEBUG else [])


def _transport_security(hosts: Collection[str]) -> TransportSecuritySettings:
    # Patterns are beyond the SDK; whoever allows any host also gave up this protection.
    is_exact = not any(host == "*" or host.startswith(".") for host in hosts)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=is_exact,
        allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
        allowed_origins=[
            f"{scheme}://{form}"
            for scheme in ("http", "https")
            for host in hosts
            for form in (host, f"{host}:*")
        ],
    )
