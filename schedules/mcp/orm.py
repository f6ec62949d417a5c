"""How does async code reach the tables? Through one door that never hands out a dead connection."""

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


def orm(function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Make a function that uses the tables awaitable; one runs at a time in each process."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        _drop_stale_connections()
        return function(*args, **kwargs)

    run = sync_to_async(guarded, thread_sensitive=True)

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run(*args, **kwargs)

    return wrapper


def _drop_stale_connections() -> None:
    # No request begins or ends here, so Django would never look; inside a transaction it must not.
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
