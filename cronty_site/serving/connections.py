"""Open connections: how many there may be, and a time-out for the headers of a request, which uvicorn lacks."""

import asyncio
import resource
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

# How many seconds a client has for the headers of a request.
HEADERS = 10.0
# Connections reserved for health checks when ordinary requests have reached their limit.
RESERVE = 32


def max_connections() -> int:
    """Return how many connections may be open: the setting, but at most half of the process's file handles."""
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = int(settings.CRONTY_MAX_CONNECTIONS)
    return limit if handles == resource.RLIM_INFINITY else min(limit, handles // 2)


def max_requests() -> int:
    return max(1, max_connections() - RESERVE)


class Connection(H11Protocol):
    """uvicorn's HTTP protocol, which also closes a connection whose client is silent before or within the headers."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        if not self._is_answering():
            # The first byte of a request after an earlier one.
            self._wait_for_headers()
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_headers(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEADERS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
