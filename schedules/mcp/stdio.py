"""MCP over standard input and output, with an answer to every line.

The SDK's own transport answers neither malformed lines nor calls that are still open when the input ends.
"""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import TextIOWrapper
from typing import Any, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from schedules.mcp.early import ANSWERED_ID
from schedules.mcp.subscriptions import end_streams

MAX_LINE_LENGTH = 64 * 2**20
DRAIN_SECONDS = 10.0

logger = logging.getLogger(__name__)

Item: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def standard_streams() -> AsyncIterator[Streams]:
    """Yield a server's message streams on standard input and output.

    Meanwhile, nothing else in the process can read standard input, and prints go to standard error.
    """
    try:
        async with (
            stdio_server(anyio.wrap_file(_take_standard_input())) as (read_stream, write_stream),
            answering_streams(read_stream, write_stream) as streams,
        ):
            yield streams
    except* (BrokenPipeError, anyio.BrokenResourceError):
        logger.info("The client has closed the connection")


@asynccontextmanager
async def answering_streams(read_stream: Any, write_stream: Any) -> AsyncIterator[Streams]:
    """Forward messages in both directions, answer malformed ones, and wait for open calls before the end."""
    to_server, incoming = anyio.create_memory_object_stream[Item]()
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
    open_calls = _OpenCalls()

    async def forward_incoming() -> None:
        async with read_stream, to_server:
            async for item in read_stream:
                if refusal := refuse(item):
                    await write_stream.send(SessionMessage(refusal))
                elif isinstance(item, SessionMessage):
                    open_calls.note_incoming(item)
                    await to_server.send(item)
            # Subscriptions are answered only when they end.
            end_streams()
            with anyio.move_on_after(DRAIN_SECONDS):
                await open_calls.wait()

    async def forward_outgoing() -> None:
        async with from_server, write_stream:
            async for item in from_server:
                if getattr(item.message, "id", None) != ANSWERED_ID:
                    await write_stream.send(item)
                open_calls.note_outgoing(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forward_incoming)
        tasks.start_soon(forward_outgoing)
        async with incoming, outgoing:
            yield incoming, outgoing


def refuse(item: Item) -> JSONRPCError | None:
    """Return the answer to an item that is not a valid message, or None if the server can handle it."""
    match item:
        case ValidationError():
            [problem, *_] = problems = item.errors()
            if problem["type"] == "json_invalid":
                is_blank = not problem["input"].strip()
                return None if is_blank else _error(PARSE_ERROR, f"Parse error: {problem['msg']}")
            message = "Invalid request: this is not a JSON-RPC 2.0 message"
            return _error(INVALID_REQUEST, message, _id_of_request(problems))
        case SessionMessage(message=JSONRPCNotification(method=method)):
            # The SDK reads a request with an invalid id as a notification, and would not answer it.
            if not method.startswith("notifications/"):
                return _error(
                    INVALID_REQUEST, "Invalid request: a request needs an id, a string or an integer"
                )
    return None


class _OpenCalls:
    """The requests that have not been answered yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._all_answered = anyio.Event()

    def note_incoming(self, item: Item) -> None:
        match item:
            case SessionMessage(message=JSONRPCRequest(id=request_id)):
                self._ids.add(str(request_id))
            case SessionMessage(
                message=JSONRPCNotification(
                    method="notifications/cancelled", params={"requestId": request_id}
                )
            ):
                self._close(request_id)

    def note_outgoing(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._close(item.message.id)

    async def wait(self) -> None:
        """Wait until no request is open."""
        if self._ids:
            self._all_answered = anyio.Event()
            await self._all_answered.wait()

    def _close(self, request_id: object) -> None:
        self._ids.discard(str(request_id))
        if not self._ids:
            self._all_answered.set()


class _InputLines(TextIOWrapper):
    """Standard input, with a limit on the memory for one line."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        line = super().readline(MAX_LINE_LENGTH)
        if len(line) < MAX_LINE_LENGTH or line.endswith("\n"):
            return line
        while (rest := super().readline(MAX_LINE_LENGTH)) and not rest.endswith("\n"):
            continue
        return "this line is too long, and not JSON: it is answered like any other malformed line\n"


def _take_standard_input() -> _InputLines:
    """Return a copy of standard input, and leave an empty one to the rest of the process."""
    copy = os.fdopen(os.dup(0), "rb")
    with open(os.devnull) as empty:
        os.dup2(empty.fileno(), 0)
    return _InputLines(copy, encoding="utf-8", errors="replace")


def _error(code: int, message: str, request_id: str | int | None = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def _id_of_request(problems: list[Any]) -> str | int | None:
    """Return the id of a malformed request; None for a malformed response, whose id is our own."""
    for problem in problems:
        message = problem["input"]
        if isinstance(message, dict) and "jsonrpc" in message and "method" in message:
            request_id = message.get("id")
            return request_id if type(request_id) in (str, int) else None
    return None
