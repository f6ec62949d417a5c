"""Calls that a person answers while the program of a run waits: its hook asks through a socket in the folder of the run."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connections

from schedules import clock, engine
from schedules.agents.reports import Call, mapping_of, text_of
from schedules.models import Approval

logger = logging.getLogger(__name__)

Status = Approval.Status
# Returns whether a call, made in this session, is allowed.
Decide = Callable[[Call, str], Awaitable[bool]]

SOCKET = "cronty-asks"
LOOK_EVERY = 0.5
# Other connections are not answered.
MOST_AT_ONCE = 20
LARGEST_CALL = 4 * 1_048_576
# A longer path is no address for the system.
LONGEST_PATH = 100


def socket_in(folder: str) -> str:
    """Return the address at which the hook of a run asks; empty if its folder has too long a path."""
    path = str(Path(folder, SOCKET))
    return path if len(path.encode()) <= LONGEST_PATH else ""


@asynccontextmanager
async def answering(path: str, decide: Decide) -> AsyncIterator[None]:
    """Answer the hook at this address, each call by itself; what still waits at the end gets no answer."""
    open_tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_tasks) >= MOST_AT_ONCE:
            writer.close()
            return
        open_tasks.add(task)
        try:
            # Cancelled at the end of the run, which nobody waits for any more.
            with suppress(OSError, ValueError, asyncio.CancelledError):
                asked = mapping_of(json.loads(await reader.readline()))
                call = Call(
                    text_of(asked.get("tool_use_id")),
                    text_of(asked.get("tool_name")),
                    asked.get("tool_input"),
                )
                is_allowed = await decide(call, text_of(asked.get("session_id")))
                writer.write(b"allow\n" if is_allowed else b"deny\n")
                await writer.drain()
        except Exception:
            # No answer is a denial.
            logger.exception("A call could not be asked")
        finally:
            writer.close()
            open_tasks.discard(task)

    server = await asyncio.start_unix_server(serve, path, limit=LARGEST_CALL)
    try:
        yield
    finally:
        server.close()
        for task in (still_open := list(open_tasks)):
            task.cancel()
        await asyncio.gather(*still_open)


async def wait_for_answer(approval: Approval) -> bool:
    """Wait until a person has answered or the time for it is over; return whether the call may be made now, once."""
    while True:
        status = await asyncio.to_thread(_status_of, approval)
        if status != Status.WAITING:
            return status == Status.USED
        await asyncio.sleep(LOOK_EVERY)


def ask(execution_id: int, attempt: int, request: Any, within: timedelta) -> Approval | None:
    """Record what a program waits for; return None if the run has ended, or has asked it before."""
    try:
        return engine.ask_in_run(execution_id, attempt, request, clock.now(), within)
    finally:
        # This thread is not used again.
        connections.close_all()


def _status_of(approval: Approval) -> str:
    """Return what has become of an approval; one that was allowed is used up by it, and one that is too late is denied."""
    try:
        mine, now = Approval.objects.filter(pk=approval.pk), clock.now()
        if mine.filter(status=Status.ALLOWED).update(status=Status.USED, used_at=now):
            return Status.USED
        if now >= approval.expires_at:
            engine.close_approval(approval.pk, now)
        # Allowed just now: the next look uses it up.
        status = mine.values_list("status", flat=True).first() or Status.WITHDRAWN
        return Status.WAITING if status == Status.ALLOWED else status
    finally:
        connections.close_all()
