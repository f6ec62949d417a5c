"""Calls that a person decides about while the program waits: its hook asks through a socket in the run's folder."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from schedules import clock, engine
from schedules.agents.reports import Call, mapping_of, text_of
from schedules.models import Approval
from schedules.tasks.database_threads import in_thread

logger = logging.getLogger(__name__)

Status = Approval.Status
# Takes a call and its session, and returns whether the call is allowed.
Decide = Callable[[Call, str], Awaitable[bool]]

SOCKET = "cronty-asks"
POLL_SECONDS = 0.5
# Further connections are closed without an answer.
MAX_CONNECTIONS = 20
MAX_CALL_BYTES = 4 * 1_048_576
# The system does not accept longer paths for a socket.
LONGEST_PATH = 100


def socket_in(folder: str) -> str:
    """Return the path of the socket at which the hook asks, or an empty text if the folder's path is too long."""
    path = str(Path(folder, SOCKET))
    return path if len(path.encode()) <= LONGEST_PATH else ""


@asynccontextmanager
async def answering(path: str, decide: Decide) -> AsyncIterator[None]:
    """Answer the hook's calls at this socket, several at a time; calls that still wait at the end get no answer."""
    open_tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_tasks) >= MAX_CONNECTIONS:
            writer.close()
            return
        open_tasks.add(task)
        try:
            # The end of the run cancels this task, when nobody waits for the answer any more.
            with suppress(OSError, ValueError, asyncio.CancelledError):
                request = mapping_of(json.loads(await reader.readline()))
                call = Call(
                    text_of(request.get("tool_use_id")),
                    text_of(request.get("tool_name")),
                    request.get("tool_input"),
                )
                is_allowed = await decide(call, text_of(request.get("session_id")))
                writer.write(b"allow\n" if is_allowed else b"deny\n")
                await writer.drain()
        except Exception:
            # The hook takes no answer for a denial.
            logger.exception("A call could not be asked")
        finally:
            writer.close()
            open_tasks.discard(task)

    server = await asyncio.start_unix_server(serve, path, limit=MAX_CALL_BYTES)
    try:
        yield
    finally:
        server.close()
        for task in (unanswered := list(open_tasks)):
            task.cancel()
        await asyncio.gather(*unanswered)


async def wait_for_answer(approval: Approval) -> bool:
    """Wait until a person has answered or the time is up; return whether the call may be made now, once."""
    while True:
        status = await in_thread(_take_status, approval)
        if status != Status.WAITING:
            return status == Status.USED
        await asyncio.sleep(POLL_SECONDS)


def record_request(execution_id: int, attempt: int, request: Any, within: timedelta) -> Approval | None:
    """Record what a program waits for; return None if the run has ended, or has asked the same before."""
    return engine.ask_in_run(execution_id, attempt, request, clock.now(), within)


def _take_status(approval: Approval) -> str:
    """Return the status of an approval, after marking it as used if it was allowed, and closing it if it has expired."""
    rows, now = Approval.objects.filter(pk=approval.pk), clock.now()
    if rows.filter(status=Status.ALLOWED).update(status=Status.USED, used_at=now):
        return Status.USED
    if now >= approval.expires_at:
        engine.close_approval(approval.pk, now)
    # If it was allowed just now, the next poll marks it as used.
    status = rows.values_list("status", flat=True).first() or Status.WITHDRAWN
    return Status.WAITING if status == Status.ALLOWED else status
