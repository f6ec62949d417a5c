"""Pings to `CRONTY_HEARTBEAT_URL` as long as a cluster claims, so that an external monitor notices when none does.

The claim loop asks for a ping after a claim that worked, and a worker sends it. So a ping shows that the database, the
claim loop, the queue and a worker work.
"""

import asyncio
import logging

from django.conf import settings
from django.db import Error, connections

from schedules import clock, engine
from schedules.tasks import outbound

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10
# How much of an answer is read: only its status matters.
MAX_BYTES = 1024


async def ping_watch() -> None:
    """Send one ping, and record its result."""
    error = await _send()
    if error:
        logger.warning("The outside watch could not be pinged: %s", error)
    await asyncio.to_thread(_note, error)


async def _send() -> str:
    """Return why the ping did not arrive, or an empty text; the address is a secret and left out."""
    url = settings.CRONTY_HEARTBEAT_URL
    try:
        reply = await outbound.send("GET", url, trusted=True, timeout=TIMEOUT_SECONDS, max_bytes=MAX_BYTES)
    except outbound.OutboundError as error:
        return str(error)
    host = outbound.Target.parse(url).host
    if 300 <= reply.status < 400:
        return f"{host} answered {reply.status}: redirects are not followed; set the final address."
    return "" if reply.status < 300 else f"{host} answered {reply.status}."


def _note(error: str) -> None:
    try:
        engine.note_watch_answer(clock.now(), error)
    except Error as problem:
        logger.info("The answer of the outside watch could not be recorded (%s)", problem)
    finally:
        connections.close_all()
