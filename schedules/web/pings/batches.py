"""Batched writes of pings: those that arrive while a batch is written form the next one and share its commit."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import Error, close_old_connections, connection

from schedules.services import pings
from schedules.services.pings import Received
from schedules.web.pings.requests import NOT_STORED, Answer, answer_to
from schedules.worker.database_errors import outage_in, reason_of

logger = logging.getLogger(__name__)

MAX_BATCH = 200
# Beyond this, clients are told to try again later.
MAX_WAITING = 5_000


class Batches:
    """Writes pings in one thread, because sequential transactions are fastest on both databases."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Received, asyncio.Future[Answer]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pings")
        self._writer: asyncio.Task[None] | None = None

    async def store(self, ping: Received) -> Answer:
        """Store a ping, and return the answer once it is committed."""
        if len(self._waiting) >= MAX_WAITING:
            return NOT_STORED
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((ping, answer))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                count = min(MAX_BATCH, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                answers = [NOT_STORED] * count
                try:
                    answers = await loop.run_in_executor(self._thread, store_now, [ping for ping, _ in batch])
                finally:
                    for (_, future), answer in zip(batch, answers, strict=True):
                        # The future of a client that disconnected is cancelled.
                        if not future.done():
                            future.set_result(answer)
        finally:
            self._writer = None


def store_now(batch: Sequence[Received]) -> list[Answer]:
    """Store a batch in this thread; one ping that cannot be stored does not fail the others."""
    if not connection.in_atomic_block:
        close_old_connections()
    try:
        return [answer_to(result) for result in pings.receive(batch)]
    except Exception as error:
        if (outage := outage_in(error)) or isinstance(error, Error):
            logger.warning("Pings were not stored: %s", reason_of(outage or error))  # type: ignore[arg-type]
            if not connection.in_atomic_block:
                connection.close()
        else:
            logger.exception("Pings were not stored")
        is_away = outage is not None
    if is_away or len(batch) == 1:
        return [NOT_STORED] * len(batch)
    return [answer for ping in batch for answer in store_now([ping])]
