"""MCP over standard input and output, with an answer to every line.

The SDK's own transport answers neither malformed lines nor calls that are still open when the input ends.
"""

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import IO, Any, cast

import anyio.from_thread
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from schedules.mcp.early import ANSWERED_ID
from schedules.mcp.subscriptions import end_streams

MAX_LINE_LENGTH = 64 * 2**20
DRAIN_SECONDS = 10.0
_ID_OF_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":"?([^",]+)"?,"(?:result|error)"')

logger = logging.getLogger(__name__)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Have the SDK's transport read and write through `Input` and `Output`.

    Meanwhile, nothing else in the process can read standard input, and prints go to standard error.
    """
    output = Output(os.fdopen(os.dup(1), "wb"))
    standard_input = Input(os.fdopen(os.dup(0), "rb"), output)
    with open(os.devnull) as empty:
        os.dup2(empty.fileno(), 0)
        os.dup2(2, 1)
        # The transport takes only the buffers.
        sys.stdin = cast(Any, _Stream(empty, standard_input))
        sys.stdout = cast(Any, _Stream(sys.stderr, output))
        try:
            yield
        except* (BrokenPipeError, anyio.BrokenResourceError):
            logger.info("The client has closed the connection")


class _Stream:
    """A text stream with the buffer of another one."""

    def __init__(self, text: Any, buffer: io.BufferedIOBase) -> None:
        self._text, self.buffer = text, buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._text, name)


class Output(io.BufferedIOBase):
    """Standard output, with the requests that are still to be answered on it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._open: set[str] = set()
        self._changed = Condition()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write an answer or another message, except the second answer to a request that was answered early."""
        answered = _ID_OF_ANSWER.match(data)
        with self._changed:
            if not (answered and answered[1] == ANSWERED_ID.encode()):
                self._file.write(data)
                self._file.flush()
        if answered:
            self.close_request(answered[1].decode())
        return len(data)

    def open_request(self, request_id: object) -> None:
        with self._changed:
            self._open.add(str(request_id))

    def close_request(self, request_id: object) -> None:
        with self._changed:
            self._open.discard(str(request_id))
            self._changed.notify_all()

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until no request is open, but no longer than this."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open, seconds)


class Input(io.BufferedIOBase):
    """Standard input without malformed lines, which are answered; it ends when all requests have been answered."""

    def __init__(self, file: IO[bytes], output: Output) -> None:
        self._file, self._output = file, output

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        """Return the next line with a message, however long it is; empty at the end."""
        while line := self._read_line():
            if not line.strip():
                continue
            refusal = self._note(line)
            if refusal is None:
                return line
            self._output.write(refusal.model_dump_json(by_alias=True).encode() + b"\n")
        # Subscriptions are answered only when they end.
        anyio.from_thread.run_sync(end_streams)
        self._output.wait_for_answers(DRAIN_SECONDS)
        return b""

    def _read_line(self) -> bytes:
        line = self._file.readline(MAX_LINE_LENGTH)
        if len(line) < MAX_LINE_LENGTH or line.endswith(b"\n"):
            return line
        while (rest := self._file.readline(MAX_LINE_LENGTH)) and not rest.endswith(b"\n"):
            continue
        return b"this line is too long, and not JSON: it is answered like any other malformed line\n"

    def _note(self, line: bytes) -> JSONRPCError | None:
        """Note which request a line opens or cancels; return the answer to a line that is not a valid message."""
        try:
            message = jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
        except ValidationError as error:
            [problem, *_] = problems = error.errors()
            if problem["type"] == "json_invalid":
                return _error(PARSE_ERROR, f"Parse error: {problem['msg']}")
            why = "Invalid request: this is not a JSON-RPC 2.0 message"
            return _error(INVALID_REQUEST, why, _id_of_request(problems))
        match message:
            case JSONRPCRequest(id=request_id):
                self._output.open_request(request_id)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                self._output.close_request(request_id)
            case JSONRPCNotification(method=method) if not method.startswith("notifications/"):
                # The SDK reads a request with an invalid id as a notification, and would not answer it.
                return _error(
                    INVALID_REQUEST, "Invalid request: a request needs an id, a string or an integer"
                )
        return None


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
