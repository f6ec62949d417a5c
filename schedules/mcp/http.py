"""MCP over HTTP: the ASGI app that serves /mcp and explains its refusals."""

import json
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedules.mcp.auth import token_problem, why_unauthorized
from schedules.mcp.on_demand import MCP_PATH
from schedules.mcp.server import CrontyServer, build_server
from schedules.services.people.tokens import FAMILIES
from schedules.worker.database_errors import TRY_AGAIN, TRY_AGAIN_SECONDS

NOT_FOUND = Response("Not found\n", status_code=404, media_type="text/plain")
ONLY_POST = Response(status_code=405, headers={"Allow": "POST"})


def build_http_app(
    *, families: Collection[str] = FAMILIES, hosts: Collection[str] = (), elsewhere: ASGIApp = NOT_FOUND
) -> ASGIApp:
    """Build the ASGI app that serves /mcp; an app can be started only once.

    `hosts` are accepted in addition to ALLOWED_HOSTS; `elsewhere` serves every other path.
    """
    mcp_app = serve_over_http(build_server(families=families, with_tokens=True), hosts)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # Django has no lifespan; the SDK's app needs it to start and stop.
            await mcp_app(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] != MCP_PATH:
            await elsewhere(scope, receive, send)
        elif scope["method"] == "POST":
            # The SDK compares hosts exactly, although their case does not matter.
            headers = [
                (name, value.lower() if name == b"host" else value) for name, value in scope["headers"]
            ]
            token_problem.set("")
            await mcp_app({**scope, "headers": headers}, receive, _ExplainedRefusals(send))
        else:
            # A GET would open a stream that never carries anything; no client needs it.
            await ONLY_POST(scope, receive, send)

    return app


class _ExplainedRefusals:
    """Forwards answers, but explains the SDK's refusals: clients show the explanation to the person."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_refused = False

    async def __call__(self, message: Message) -> None:
        if self._has_refused:
            return
        match message:
            case {"type": "http.response.start", "status": 401}:
                await self._refuse(
                    message, {"error": "invalid_token", "error_description": why_unauthorized()}
                )
            case {"type": "http.response.start", "status": 413}:
                detail = f"The request is too large: at most {settings.CRONTY_MCP_BODY_BYTES} bytes."
                error = {"code": INVALID_REQUEST, "message": detail}
                await self._refuse(message, {"jsonrpc": "2.0", "id": None, "error": error})
            case _:
                await self._send(message)

    async def _refuse(self, start: Message, answer: dict[str, Any]) -> None:
        self._has_refused = True
        body = json.dumps(answer).encode()
        headers = [
            (name, _with_description(value, answer.get("error_description")))
            for name, value in start["headers"]
            if name not in (b"content-type", b"content-length")
        ]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _with_description(header: bytes, description: str | None) -> bytes:
    default = b'error_description="Authentication required"'
    return header.replace(default, f'error_description="{description}"'.encode()) if description else header


def serve_over_http(server: CrontyServer, hosts: Collection[str] = ()) -> Starlette:
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        max_request_body_size=settings.CRONTY_MCP_BODY_BYTES,
        transport_security=_transport_security([host.lower() for host in (*_allowed_hosts(), *hosts)]),
    )
    app.add_exception_handler(Exception, _server_error)
    return app


def _server_error(request: Request, error: Exception) -> Response:
    """Answer a request that failed before it reached a tool, for example while its token was looked up."""
    if isinstance(error, (OperationalError, InterfaceError)):
        return PlainTextResponse(f"{TRY_AGAIN}.\n", 503, headers={"Retry-After": str(TRY_AGAIN_SECONDS)})
    return PlainTextResponse("Internal server error\n", 500)


def _allowed_hosts() -> list[str]:
    """Read ALLOWED_HOSTS as Django does: with DEBUG, an empty list allows this machine."""
    this_machine = ["localhost", "127.0.0.1", "[::1]"]
    return [*settings.ALLOWED_HOSTS] or (this_machine if settings.DEBUG else [])


def _transport_security(hosts: Collection[str]) -> TransportSecuritySettings:
    # The SDK supports no patterns, and a wildcard host rules out this protection anyway.
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
