"""Long-lived responses: they wait for events, for the end of a run, or for a command's output.

A waiting request gives up its place among the requests handled at once, and holds no database connection.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpRequest

P = ParamSpec("P")
T = TypeVar("T")

# The key, in the ASGI scope, of the server's function that gives up a request's place.
LEAVE_PLACE = "cronty.leave_place"
# One thread with one connection reads for all waiting requests.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-answers")


async def give_up_place(request: HttpRequest) -> None:
    """Give up a request's place among those handled at once, and close its thread's database connections."""
    leave_place = getattr(request, "scope", {}).get(LEAVE_PLACE)
    if leave_place is not None:
        await leave_place()
    await sync_to_async(_close_connections)()


async def stream_while_waiting(request: HttpRequest, parts: AsyncGenerator[str]) -> AsyncIterator[str]:
    """Stream the parts of a response that waits between them."""
    async with aclosing(parts):
        await give_up_place(request)
        async for part in parts:
            yield part


def read_while_waiting(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a function that reads the database awaitable; it runs in the thread shared by waiting requests."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        return function(*args, **kwargs)

    return sync_to_async(guarded, thread_sensitive=False, executor=_reader)


def _close_connections() -> None:
    for connection in connections.all(initialized_only=True):
        # Closing the connection would break an open transaction.
        if not connection.in_atomic_block:
            connection.close()
