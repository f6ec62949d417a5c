"""Reuse the threads of pages and API for further requests, and with them their database connections."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import ThreadSensitiveContext
from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware
from starlette.types import ASGIApp, Receive, Scope, Send

# As many as are busy at once on an ordinary day; each may hold a database connection.
MAX_IDLE = 8


class ReusedThreads:
    """Runs Django in a thread of an earlier request; by default, each request starts a thread that has to connect."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The most recently used one, so that the others stay idle.
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._app(scope, receive, send)
        finally:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(thread)
            else:
                thread.submit(connections.close_all)
                thread.shutdown(wait=False)


@sync_only_middleware
def stay_in_thread(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Run all middleware in the thread of the request: as the last one, this decides that none of them changes threads."""
    return get_response
