"""Limit open connections: their number, and time-outs for silent clients and slow readers."""

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

# Time-outs in seconds: for the headers of a request, and for a client that stops reading a response.
HEADERS = 10.0
STALLED_READER = 60.0
# Connections reserved for health checks when ordinary requests have reached their limit.
RESERVE = 32
# How many connections the loop accepts at once; all of them count as open.
BACKLOG = 128
ACCEPT_ERRORS_EVERY = 60.0
KEY = "cronty.connection"
logger = logging.getLogger(__name__)


def max_connections() -> int:
    """Return how many connections may be open: the setting, but at most half of the process's file handles."""
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = int(settings.CRONTY_MAX_CONNECTIONS)
    return limit if handles == resource.RLIM_INFINITY else min(limit, handles // 2)


def max_requests() -> int:
    return max(1, max_connections() - RESERVE)


class Connections:
    """The open connections of a server; beyond the limit, a new one replaces the one that has been idle longest.

    A connection is idle while the server waits for the client.
    """

    def __init__(self) -> None:
        self._max_open = max_connections()
        self._idle: dict[Connection, None] = {}
        self._busy: set[Connection] = set()

    def add(self, connection: "Connection") -> None:
        if len(self._idle) + len(self._busy) >= self._max_open:
            # If none is idle, the new one is closed.
            victim = next(iter(self._idle), connection)
            self.remove(victim)
            victim.abort()
            if victim is connection:
                return
        self._idle[connection] = None

    def mark_busy(self, connection: "Connection") -> None:
        if connection in self._idle:
            del self._idle[connection]
            self._busy.add(connection)

    def mark_idle(self, connection: "Connection") -> None:
        if connection in self._busy:
            self._busy.remove(connection)
            self._idle[connection] = None

    def remove(self, connection: "Connection") -> None:
        self._idle.pop(connection, None)
        self._busy.discard(connection)


class Timer:
    """Calls a function after some seconds, unless it is stopped; starting it again changes nothing."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self._seconds, self._function = seconds, function
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._function)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Connection(H11Protocol):
    """uvicorn's HTTP protocol with time-outs, which it lacks.

    It overrides only methods of asyncio.Protocol. `TrackRequests` reports when a request is under way: the time-out for
    headers does not run then, so that long responses stay open.
    """

    def __init__(self, connections: Connections, *, app_state: dict[str, Any], **options: Any) -> None:
        super().__init__(app_state={**app_state, KEY: self}, **options)
        self._connections = connections
        self._headers_timer = Timer(HEADERS, self.abort)
        self._reader_timer = Timer(STALLED_READER, self.abort)
        self._under_way = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connections.add(self)
        self._headers_timer.start()

    def data_received(self, data: bytes) -> None:
        # The first byte of a request after an earlier one.
        if not self._under_way:
            self._headers_timer.start()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._headers_timer.stop()
        self._reader_timer.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._reader_timer.start()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._reader_timer.stop()
        super().resume_writing()

    def start_request(self) -> None:
        self._under_way += 1
        self._headers_timer.stop()

    def complete_request(self) -> None:
        """Mark the connection busy: until the client has sent everything, a new connection may replace this one."""
        self._connections.mark_busy(self)

    def end_request(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._connections.mark_idle(self)

    def hand_over(self) -> None:
        """Stop tracking the connection, because another protocol has taken it over."""
        self._connections.remove(self)

    def abort(self) -> None:
        self.transport.abort()


class TrackRequests:
    """An ASGI app that tells a connection when a request on it starts and ends."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        connection = scope.get("state", {}).pop(KEY, None)
        if connection is None:
            await self.app(scope, receive, send)
            return

        async def receive_all() -> Any:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                connection.complete_request()
            return message

        connection.start_request()
        if scope["type"] == "websocket":
            connection.hand_over()
        try:
            await self.app(scope, receive_all, send)
        finally:
            connection.end_request()


class AcceptErrors:
    """An exception handler for the event loop that logs failed accepts once a minute, with their number."""

    def __init__(self) -> None:
        self._logged_at = -ACCEPT_ERRORS_EVERY
        self._left_out = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now - self._logged_at < ACCEPT_ERRORS_EVERY:
            self._left_out += 1
            return
        logger.error(
            "A connection could not be accepted: %s (%d more since the last such line)",
            context.get("exception"),
            self._left_out,
        )
        self._logged_at, self._left_out = now, 0
