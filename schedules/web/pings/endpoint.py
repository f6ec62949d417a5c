"""The ping endpoint: an ASGI app of its own, because the middleware of the pages would cost more than a ping.

Projects with another server get the same as a view.
"""

from collections.abc import Mapping

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from starlette.types import Receive, Scope, Send

from schedules.limits import PING_BODY_BYTES
from schedules.services.jobs.addresses import PING_PATH
from schedules.services.people.hourly_limits import network_of
from schedules.web.pings.batches import Batches, store_now
from schedules.web.pings.limits import PingLimits
from schedules.web.pings.requests import HEADERS, LATE_HEADER, TOO_FAST, Answer, read

_LATE_HEADER = LATE_HEADER.lower().encode()
_ENCODED_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
PREFLIGHT = {"Access-Control-Allow-Methods": "HEAD, GET, POST", "Access-Control-Max-Age": "600"}
# Shared by the ASGI app and the view, because limits are per process.
limits = PingLimits()


class PingEndpoint:
    """An ASGI app that answers pings."""

    def __init__(self) -> None:
        self._batches = Batches()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            return
        if scope["method"] == "OPTIONS":
            await _send(send, Answer(204, ""), more=PREFLIGHT)
            return
        sender = scope["client"][0] if scope.get("client") else ""
        late_by = next((value for name, value in scope["headers"] if name == _LATE_HEADER), b"")
        ping = read(
            scope["method"], scope["path"], scope["query_string"], body=body, sender=sender, late_by=late_by
        )
        if isinstance(ping, Answer):
            answer = ping
        elif not limits.allow(ping.address, client := network_of(sender) or ""):
            answer = TOO_FAST
        else:
            answer = await self._batches.store(ping)
            limits.note(ping.address, client, answer.status)
        await _send(send, answer, has_body=scope["method"] != "HEAD")


async def _body(receive: Receive) -> bytes | None:
    """Read a body and keep its beginning; return None if the client disconnected."""
    message = await receive()
    if message["type"] != "http.request":
        return None
    if not message.get("more_body"):
        return bytes(message.get("body", b"")[:PING_BODY_BYTES])
    parts, size = [], 0
    while True:
        part = message.get("body", b"")[: PING_BODY_BYTES - size]
        parts.append(part)
        size += len(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
        if message["type"] != "http.request":
            return None


async def _send(
    send: Send, answer: Answer, *, has_body: bool = True, more: Mapping[str, str] | None = None
) -> None:
    text = answer.text.encode()
    headers = [*_ENCODED_HEADERS, (b"content-length", str(len(text)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in (more or {}).items()]
    if answer.wait:
        headers.append((b"retry-after", str(answer.wait).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": text if has_body else b""})


@csrf_exempt
@login_not_required
def ping(request: HttpRequest, place: str) -> HttpResponse:
    """Answer a ping in a project that serves Cronty with its own server."""
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers={**HEADERS, **PREFLIGHT})
    received = read(
        request.method or "",
        f"{PING_PATH}{place}",
        request.META.get("QUERY_STRING", "").encode(),
        body=request.read(PING_BODY_BYTES),
        sender=(sender := request.META.get("REMOTE_ADDR", "")),
        late_by=request.headers.get(LATE_HEADER, "").encode(),
    )
    if isinstance(received, Answer):
        answer = received
    elif not limits.allow(received.address, client := network_of(sender) or ""):
        answer = TOO_FAST
    else:
        [answer] = store_now([received])
        limits.note(received.address, client, answer.status)
    headers = {**HEADERS, **({"Retry-After": str(answer.wait)} if answer.wait else {})}
    return HttpResponse(answer.text, status=answer.status, headers=headers)
