"""An HTTP/1.1 connection: h11 for the protocol, asyncio for the bytes."""

import asyncio
import select
from dataclasses import dataclass, field
from typing import cast

import h11

# The size limit for a reply's status line and headers.
MAX_HEAD_BYTES = 100 * 1024
# How many 1xx replies may come before the real one; after more, nothing is read until the time limit.
MAX_INFORMATIONAL = 100


@dataclass
class Incoming:
    """The part of a reply that has arrived so far; without a status, nothing has."""

    max_bytes: int
    """How much of the body is wanted."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._incoming: Incoming | None = None
        self._informational_count = 0
        self._is_open = False
        self.idle_since = self._loop.time()

    async def exchange(self, request: h11.Request, content: bytes | None, incoming: Incoming) -> None:
        """Send a request and wait for the reply; raises OSError or h11's ProtocolError, even after a part of it."""
        data = self._http.send(request) or b""
        if content:
            data += self._http.send(h11.Data(data=content)) or b""
        self._http.send(h11.EndOfMessage())
        self._incoming, self._informational_count = incoming, 0
        self._done = self._loop.create_future()
        self._transport.write(data)
        try:
            await self._done
        finally:
            self._incoming = None
            self._prepare_for_next()

    @property
    def is_reusable(self) -> bool:
        """Whether it can carry another request, as far as the event loop knows."""
        return self._is_open and self._http.our_state is h11.IDLE

    @property
    def is_silent(self) -> bool:
        """Whether no data is waiting that the event loop has not seen yet, such as the end of an idle connection."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close it at once; an orderly close would wait for the server."""
        if self._is_open:
            self._is_open = False
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._is_open = True

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def eof_received(self) -> None:
        if self._http.their_state is h11.SEND_RESPONSE:
            self._end(ConnectionError("server disconnected without sending a response"))
        self._receive(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        if exc:
            self._end(exc)
        else:
            self.eof_received()

    def _receive(self, data: bytes) -> None:
        if self._incoming is None:
            # A server must not send anything between two requests.
            self.close()
            return
        try:
            self._http.receive_data(data)
            self._read(self._incoming)
        except h11.ProtocolError as error:
            self._end(error)

    def _read(self, incoming: Incoming) -> None:
        while self._informational_count <= MAX_INFORMATIONAL:
            match self._http.next_event():
                case h11.InformationalResponse():
                    self._informational_count += 1
                case h11.Response() as head:
                    incoming.headers |= {
                        name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
                    }
                    incoming.status = head.status_code
                case h11.Data() as part:
                    incoming.body += part.data
                    if len(incoming.body) > incoming.max_bytes:
                        return self._end()
                case h11.EndOfMessage():
                    incoming.is_complete = True
                    return self._end()
                case _:
                    return None
        return self._transport.pause_reading()

    def _end(self, error: Exception | None = None) -> None:
        if self._incoming is None or self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)

    def _prepare_for_next(self) -> None:
        """Prepare for another request if this one was sent and answered completely; otherwise close."""
        is_complete = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # Bytes that are still pending would become part of the next request or reply.
        is_quiet = not self._transport.get_write_buffer_size() and not self._http.trailing_data[0]
        if is_complete and is_quiet and self._is_open:
            self._http.start_next_cycle()
            self.idle_since = self._loop.time()
        else:
            self.close()
