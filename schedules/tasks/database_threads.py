"""Database work of coroutines, in threads of a pool."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connections

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def in_thread(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a function that uses the database in a thread, and close the connection that it opened there."""

    def call() -> Result:
        try:
            return function(*args, **kwargs)
        finally:
            # Threads of a pool would keep theirs open.
            connections.close_all()

    return await asyncio.to_thread(call)
