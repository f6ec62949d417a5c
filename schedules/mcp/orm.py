"""Database access from async code, without stale connections."""

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

from schedules.engine import sqlite_file

P = ParamSpec("P")
T = TypeVar("T")


def orm(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a function that uses the database awaitable; each process runs one such function at a time."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        sqlite_file.refuse_replaced()
        _drop_stale_connections()
        return function(*args, **kwargs)

    run = sync_to_async(guarded, thread_sensitive=True)

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run(*args, **kwargs)

    return wrapper


def _drop_stale_connections() -> None:
    # Django does this only after its own requests. A transaction must keep its connection.
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
