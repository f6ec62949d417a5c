"""How do messages come and go over standard input and output?"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from schedules.mcp.subscriptions import end_streams

LONGEST_LINE = 64 * 2**20
ANSWER_SECONDS = 10.0


class _Writing:
    """What is used of the SDK's output file. A client that has gone is not written to; the end of its input follows."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        if not self._writer.is_closing():
            self._writer.write(text.encode())

    async def flush(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()

    async def refuse(self, line: bytes, code: int, words: str) -> None:
        """Answer what is no message, so that whoever sent it does not wait for ever."""
        answer = {"jsonrpc": "2.0", "id": _id_of_request(line), "error": {"code": code, "message": words}}
        await self.write(to_json(answer).decode() + "\n")
        await self.flush()


class _Lines:
    """What is used of the SDK's input file: one line after the other."""

    def __init__(self, reader: asyncio.StreamReader, writing: _Writing) -> None:
        self._reader = reader
        self._writing = writing

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> bytes:
        while line := await self._next_line():
            if not line.strip():
                continue
            problem = _problem_with(line)
            if problem is None:
                return line
            # The SDK would pass over it in silence.
            await self._writing.refuse(line, *problem)
        raise StopAsyncIteration

    async def _next_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError:
            return b"too long\n"


Files = tuple[anyio.AsyncFile[str] | None, anyio.AsyncFile[str] | None]


@asynccontextmanager
async def standard_files() -> AsyncIterator[Files]:
    """Yield input and output for the SDK's stdio server; None for its own, which hand each line to threads and back.

    While they are in use, nothing else in the process reads the input, and what it prints goes to standard error.
    """
    if not (_is_pipe(0) and _is_pipe(1)):
        # A terminal must not be made non-blocking: the shell shares it.
        yield None, None
        return
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=LONGEST_LINE)
    sys.stdout.flush()
    incoming, outgoing = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), incoming)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), outgoing
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    writing = _Writing(writer)
    yield _Lines(reader, writing), writing  # type: ignore[misc]
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


Incoming = SessionMessage | Exception


class _Unanswered:
    """The requests that wait for their answer."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none_left = anyio.Event()

    def came(self, item: Incoming) -> None:
        match item.message if isinstance(item, SessionMessage) else None:
            case JSONRPCRequest(id=number):
                self._ids.add(str(number))
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": number}):
                self._settle(number)

    def went(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._settle(item.message.id)

    async def wait(self) -> None:
        """Wait until there is none."""
        if self._ids:
            self._none_left = anyio.Event()
            await self._none_left.wait()

    def _settle(self, number: object) -> None:
        self._ids.discard(str(number))
        if not self._ids:
            self._none_left.set()


class _Incoming(ObjectReceiveStream[Incoming]):
    def __init__(self, stream: Any, unanswered: _Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def receive(self) -> Incoming:
        try:
            item: Incoming = await self._stream.receive()
        except anyio.EndOfStream:
            # A subscription's answer is its end.
            end_streams()
            with anyio.move_on_after(ANSWER_SECONDS):
                await self._unanswered.wait()
            raise
        self._unanswered.came(item)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Outgoing(ObjectSendStream[SessionMessage]):
    def __init__(self, stream: Any, unanswered: _Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, item: SessionMessage) -> None:
        await self._stream.send(item)
        self._unanswered.went(item)

    async def aclose(self) -> None:
        await self._stream.aclose()


def answered_to_the_end(incoming: Any, outgoing: Any) -> tuple[_Incoming, _Outgoing]:
    """Hold the end of the input back until what was asked is answered: the SDK drops calls that are then still open."""
    unanswered = _Unanswered()
    return _Incoming(incoming, unanswered), _Outgoing(outgoing, unanswered)


def _problem_with(line: bytes) -> tuple[int, str] | None:
    """Return the code and the words to refuse a line with, or None for a message."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        [problem, *_] = error.errors(include_input=False)
        if problem["type"] == "json_invalid":
            return PARSE_ERROR, f"Parse error: {problem['msg']}"
        return INVALID_REQUEST, "Invalid request: this is no JSON-RPC 2.0 message"
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in from_json(line):
        # Taken for a notification, it would never be answered.
        return INVALID_REQUEST, "Invalid request: an id is a text or a whole number"
    return None


def _id_of_request(line: bytes) -> str | int | None:
    """Return the id that a malformed request can still be answered by; of an answer, it would name one of ours."""
    try:
        message = from_json(line)
    except ValueError:
        return None
    found = message.get("id") if isinstance(message, dict) and "method" in message else None
    return found if type(found) in (str, int) else None


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
