"""Threads of the pages and the API: kept from request to request, and with them their connections to the database."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import ThreadSensitiveContext
from django.db import connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_only_middleware
from starlette.types import ASGIApp, Receive, Scope, Send

# As many as are busy at once on an ordinary day; each may keep a connection to the database.
MAX_IDLE = 8


class KeptThreads:
    """Runs Django in a thread that an earlier request has used; by itself it would start and connect one for each."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The last one, so that the others can be idle.
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
    """Run all middleware in the thread of the request: the last one decides, and each would change threads twice."""
    return get_response
