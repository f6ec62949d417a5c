"""Answers that wait: for events, for the end of a run, or for what a command prints.

A waiting request keeps no place among the requests that are handled at once, and no connection to the database.
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

# Where the server puts the function that gives the place of a request to the next one.
LEAVE_PLACE = "cronty.leave_place"
# One thread reads for all, with one connection, however many wait.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-answers")


async def begin_to_wait(request: HttpRequest) -> None:
    """Give the place of a request to the next one, and close the connections of its thread."""
    leave_place = getattr(request, "scope", {}).get(LEAVE_PLACE)
    if leave_place is not None:
        await leave_place()
    await sync_to_async(_close_connections)()


async def waiting(request: HttpRequest, parts: AsyncGenerator[str]) -> AsyncIterator[str]:
    """Yield the parts of an answer that waits between them."""
    async with aclosing(parts):
        await begin_to_wait(request)
        async for part in parts:
            yield part


def read_while_waiting(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a function that reads the database awaitable, in the thread that reads for all who wait."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        return function(*args, **kwargs)

    return sync_to_async(guarded, thread_sensitive=False, executor=_reader)


def _close_connections() -> None:
    for connection in connections.all(initialized_only=True):
        # A transaction would lose its connection.
        if not connection.in_atomic_block:
            connection.close()
