"""ASGI guards: limits on the size and time of bodies, on requests under way, and on concurrent logins and OAuth."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from enum import Enum, auto
from functools import cache
from typing import Any

from django.conf import settings
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronty_site.serving.connections import max_requests
from schedules.api.problems import PROBLEM_JSON, ProblemError
from schedules.engine import sqlite_file
from schedules.mcp.on_demand import MCP_PATH
from schedules.services.jobs.addresses import PING_PATH
from schedules.services.long_answers import LEAVE_PLACE
from schedules.services.people.hourly_limits import network_of
from schedules.web.health import ALIVE

SMALL_BODY = 1024
LOGIN_BODY = 16_384
# Only the beginning is stored; as much as anywhere may be sent, so that a long log does not make a client fail.
PING_BODY = 1_000_000
OAUTH_PATH = "/oauth/"
TEXT = "text/plain; charset=utf-8"
METHODS_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class RequestKind(Enum):
    ALIVE = auto()
    """The health check that reads nothing."""
    STATE = auto()
    """Readiness and metrics, which read the database."""
    LOGIN = auto()
    """Forms without a login that check a password, or send a message to reset it."""
    OAUTH = auto()
    """The authorization server, which is open to anybody."""
    ANSWER = auto()
    """Answers to notifications, which need no login."""
    MCP = auto()
    PING = auto()
    """A ping of a job that runs elsewhere; pings are stored in batches."""
    API = auto()
    PAGE = auto()
    """Everything else."""


# Seconds between two parts of a body, and for the whole body.
BETWEEN_BYTES = 10.0
WHOLE_BODY = 60.0
# How much of a refused body is still read, because a client that is sending would not see the answer otherwise.
LINGER_SECONDS = 1.0
LINGER_BYTES = 4_000_000
# How many requests are handled at once; each has a thread and may have a database connection.
AT_ONCE = {RequestKind.ALIVE: 4, RequestKind.STATE: 4, RequestKind.PAGE: 10, RequestKind.API: 10}
LOGINS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
# More than CIMD_MAX_CONCURRENT_FETCHES, because fetching a document of a client takes seconds.
OAUTH_AT_ONCE = 4
ANSWERS_AT_ONCE = 4
# How many requests are in a queue or being handled, per address and in total.
WAITING_PER_ADDRESS = 5
MAX_WAITING = 50
_PROBLEM_CODES = {403: "https_required", 408: "timeout", 413: "too_large", 503: "busy"}
DISCONNECT: Message = {"type": "http.disconnect"}


def kind_of(path: str) -> RequestKind:
    if path == MCP_PATH:
        return RequestKind.MCP
    if path.startswith(PING_PATH):
        return RequestKind.PING
    if settings.CRONTY_OAUTH and path.startswith(OAUTH_PATH):
        return RequestKind.OAUTH
    if (answers := _answers(settings.ROOT_URLCONF)) and path.startswith(answers):
        return RequestKind.ANSWER
    kinds = _kinds(settings.ROOT_URLCONF)
    return kinds.get(path) or (
        RequestKind.API if path.startswith(_api_root(settings.ROOT_URLCONF)) else RequestKind.PAGE
    )


def max_body(kind: RequestKind, method: str) -> int | None:
    """Return the maximum number of bytes in a body; None if the project has turned Django's limit off."""
    if kind in {RequestKind.ALIVE, RequestKind.STATE} or method not in METHODS_WITH_BODY:
        return SMALL_BODY
    if kind is RequestKind.ANSWER:
        return SMALL_BODY
    if kind in {RequestKind.LOGIN, RequestKind.OAUTH}:
        return LOGIN_BODY
    if kind is RequestKind.PING:
        return PING_BODY
    if kind in {RequestKind.MCP, RequestKind.API}:
        return int(settings.CRONTY_MCP_BODY_BYTES)
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@cache
def _kinds(urlconf: str) -> dict[str, RequestKind]:
    """Return the paths of this URL configuration that are not ordinary pages."""
    names = {
        "schedules:alive": RequestKind.ALIVE,
        "schedules:ready": RequestKind.STATE,
        "schedules:metrics": RequestKind.STATE,
        "admin:login": RequestKind.LOGIN,
        "password_reset": RequestKind.LOGIN,
    }
    kinds = {}
    for name, kind in names.items():
        # A project may not include the pages or the admin.
        with suppress(NoReverseMatch):
            kinds[reverse(name, urlconf)] = kind
    with suppress(NoReverseMatch):
        kinds[resolve_url(settings.LOGIN_URL)] = RequestKind.LOGIN
    return kinds


@cache
def _api_root(urlconf: str) -> str:
    """Return the prefix of the API's paths; a project without the pages has none."""
    with suppress(NoReverseMatch):
        return reverse("schedules:api-openapi", urlconf).removesuffix("openapi.json")
    return "\0"


@cache
def _answers(urlconf: str) -> str:
    """Return the prefix of the paths for answers to notifications, or an empty text without the pages."""
    with suppress(NoReverseMatch):
        return reverse("schedules:answer-link", urlconf, args=["-"]).removesuffix("-/")
    return ""


class TooBusyError(Exception):
    """Too many requests of this kind, with the status and the reason to answer with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guards:
    """An ASGI app that checks requests before and while another app handles them; pings have an app of their own."""

    def __init__(self, app: ASGIApp, pings: ASGIApp | None = None) -> None:
        self.app, self._pings = app, pings or app
        self._under_way, self._max_requests = 0, max_requests()
        self._slots = {kind: asyncio.Semaphore(count) for kind, count in AT_ONCE.items()}
        # One queue each, so that requests to the authorization server do not block logins.
        self._queues = {
            RequestKind.LOGIN: AddressQueue("logins", LOGINS_AT_ONCE),
            RequestKind.OAUTH: AddressQueue("requests to the authorization server", OAUTH_AT_ONCE),
            RequestKind.ANSWER: AddressQueue("answers", ANSWERS_AT_ONCE),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        kind = kind_of(scope["path"])
        async with AsyncExitStack() as count, AsyncExitStack() as place:
            # A long poll gives its place to others; the number of long polls is limited elsewhere.
            scope[LEAVE_PLACE] = place.aclose

            async def take_place() -> None:
                count.enter_context(self._counted(kind))
                await place.enter_async_context(self._place(kind, scope))

            exchange = Exchange(scope, receive, send, kind, take_place)
            if kind not in {RequestKind.ALIVE, RequestKind.STATE} and sqlite_file.is_replaced():
                await exchange.refuse(503, sqlite_file.REPLACED)
            elif kind in {RequestKind.MCP, RequestKind.API} and _needs_https(scope):
                await exchange.refuse(403, f"Use https: {settings.CRONTY_URL}{scope['path']}")
            elif exchange.is_declared_too_large:
                await exchange.refuse_size()
            elif kind is RequestKind.ALIVE and not exchange.has_body and scope["method"] in {"GET", "HEAD"}:
                # Without a thread, so that the answer does not depend on how busy the pages are.
                await exchange.answer(200, ALIVE)
            else:
                await self._handle(self._pings if kind is RequestKind.PING else self.app, scope, exchange)

    async def _handle(self, app: ASGIApp, scope: Scope, exchange: "Exchange") -> None:
        try:
            await app(scope, exchange.receive, exchange.send)
        except Exception:
            # After a refusal, the app sees a disconnected client, and may raise an error about that.
            if not exchange.is_refused:
                raise

    @contextmanager
    def _counted(self, kind: RequestKind) -> Iterator[None]:
        """Count a complete request until it ends; raise TooBusyError if there are too many."""
        if kind in {RequestKind.ALIVE, RequestKind.STATE}:
            yield
            return
        if self._under_way >= self._max_requests:
            raise TooBusyError(503, "Too many requests are under way; try again in a few seconds")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _place(self, kind: RequestKind, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Return the place for handling a counted request; entering it waits, or raises TooBusyError."""
        if kind in {RequestKind.MCP, RequestKind.PING}:
            # MCP subscriptions stay open, and calls are short; pings have their own queue.
            return nullcontext()
        if kind in {RequestKind.OAUTH, RequestKind.ANSWER} or (
            kind is RequestKind.LOGIN and scope["method"] == "POST"
        ):
            return self._queues[kind].turn(_client_of(scope))
        return self._slots[kind if kind in self._slots else RequestKind.PAGE]


class Exchange:
    """One request and its response; limits the size and time of the body, and can refuse it until the response starts."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, kind: RequestKind, take_place: Any
    ) -> None:
        self._receive, self._send, self._kind, self._take_place = receive, send, kind, take_place
        self._limit = max_body(kind, scope["method"])
        declared = [value for name, value in scope["headers"] if name == b"content-length"]
        self._declared = int(declared[0]) if declared and declared[0].isdigit() else 0
        self.has_body = self._declared > 0 or any(
            name == b"transfer-encoding" for name, _ in scope["headers"]
        )
        self._size = 0
        self._until = asyncio.get_running_loop().time() + WHOLE_BODY
        self._is_complete = False
        self._has_started = False
        self.is_refused = False

    @property
    def is_declared_too_large(self) -> bool:
        return self._limit is not None and self._declared > self._limit

    async def receive(self) -> Message:
        """Return the next part of the body; to the app, a refused request looks like a disconnected client."""
        if self.is_refused:
            return DISCONNECT
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(
                min(asyncio.get_running_loop().time() + BETWEEN_BYTES, self._until)
            ):
                message = await self._receive()
        except TimeoutError:
            return await self.refuse(408, "The body of the request took too long")
        self._size += len(message.get("body", b""))
        if self._limit is not None and self._size > self._limit:
            return await self.refuse_size()
        if message["type"] == "http.request" and not message.get("more_body", False):
            self._is_complete = True
            try:
                await self._take_place()
            except TooBusyError as busy:
                return await self.refuse(busy.status, busy.reason, wait=5)
        return message

    async def send(self, message: Message) -> None:
        if self.is_refused:
            return
        if message["type"] == "http.response.start":
            self._has_started = True
            if self.has_body and not self._is_complete:
                # Otherwise the server would read the rest of the unused body.
                message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await self._send(message)

    async def refuse_size(self) -> Message:
        return await self.refuse(413, f"The request is too large: at most {self._limit} bytes")

    async def refuse(self, status: int, reason: str, *, wait: int = 0) -> Message:
        """Answer with this status and close the connection, unless the app has begun to answer."""
        self.is_refused = True
        if not self._has_started:
            headers = [(b"connection", b"close")]
            if wait:
                headers.append((b"retry-after", str(wait).encode()))
            if self._kind is RequestKind.MCP:
                # Clients show the message of a JSON-RPC error, but no plain text.
                error = {"code": -32600, "message": f"{reason}."}
                text, media_type = (
                    json.dumps({"jsonrpc": "2.0", "id": None, "error": error}),
                    "application/json",
                )
            elif self._kind is RequestKind.API:
                problem = ProblemError(status, _PROBLEM_CODES[status], f"{reason}.")
                text, media_type = json.dumps(problem.document()), PROBLEM_JSON
            else:
                text, media_type = f"{reason}.\n", TEXT
            await self.answer(status, text, headers, media_type=media_type, discard_body=status != 408)
        return DISCONNECT

    async def answer(
        self,
        status: int,
        text: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        media_type: str = TEXT,
        discard_body: bool = False,
    ) -> None:
        fixed = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(text)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
        await self._send({"type": "http.response.body", "body": text.encode("ascii"), "more_body": True})
        if discard_body and self.has_body and not self._is_complete:
            await self._discard_body()
        await self._send({"type": "http.response.body", "body": b""})

    async def _discard_body(self) -> None:
        size, is_more = 0, True
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while is_more and size < LINGER_BYTES:
                    message = await self._receive()
                    size += len(message.get("body", b""))
                    is_more = bool(message.get("more_body", False))


class AddressQueue:
    """Limits concurrent requests without a login, which are costly; the others wait their turn."""

    def __init__(self, name: str, at_once: int) -> None:
        self._name = name
        self._slots = asyncio.Semaphore(at_once)
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a turn; raise TooBusyError if too many are waiting already, in total or from this address."""
        if self._waiting[address] >= WAITING_PER_ADDRESS or self._waiting.total() >= MAX_WAITING:
            raise TooBusyError(429, f"Too many {self._name} at once; try again in a few seconds")
        self._waiting[address] += 1
        try:
            async with self._slots:
                yield
        finally:
            self._waiting[address] -= 1
            # Drop zeros, so that the counter does not grow with every address.
            self._waiting += Counter()


def _client_of(scope: Scope) -> str:
    return (network_of(scope["client"][0]) or "") if scope.get("client") else ""


def _needs_https(scope: Scope) -> bool:
    """Return whether this request came without TLS to a site that redirects its pages to https."""
    if not settings.SECURE_SSL_REDIRECT or not settings.CRONTY_URL.startswith("https:"):
        return False
    if scope["scheme"] == "https":
        return False
    if settings.SECURE_PROXY_SSL_HEADER is None:
        return True
    header, secure = settings.SECURE_PROXY_SSL_HEADER
    name = header.removeprefix("HTTP_").replace("_", "-").lower().encode()
    values = [value.decode("latin1") for key, value in scope["headers"] if key == name]
    return not values or values[-1].split(",")[0].strip() != secure
