"""One connection that speaks HTTP/1.1: h11 for the protocol, asyncio for the bytes."""

import asyncio
import select
from dataclasses import dataclass, field
from typing import cast

import h11

# In bytes; a longer beginning of a reply is an error.
LARGEST_HEAD = 100 * 1024
# Replies of status 1xx before the real one. After more than that nothing is read, until the time limit.
MOST_HINTS = 100


@dataclass
class Incoming:
    """A reply as far as it has arrived; without a status, nothing of it has."""

    most: int
    """How many bytes of the body are wanted."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False


class Connection(asyncio.Protocol):
    """A connection that carries one request after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self._incoming: Incoming | None = None
        self._hints = 0
        self._is_open = False
        self.idle_since = self._loop.time()

    async def exchange(self, request: h11.Request, content: bytes | None, incoming: Incoming) -> None:
        """Send a request and wait for the reply; raises OSError or h11's ProtocolError, also after a part of it."""
        sent = self._http.send(request) or b""
        if content:
            sent += self._http.send(h11.Data(data=content)) or b""
        self._http.send(h11.EndOfMessage())
        self._incoming, self._hints = incoming, 0
        self._done = self._loop.create_future()
        self._transport.write(sent)
        try:
            await self._done
        finally:
            self._incoming = None
            self._prepare_for_next()

    @property
    def is_reusable(self) -> bool:
        """Whether it can carry another request, as far as this process has heard."""
        return self._is_open and self._http.our_state is h11.IDLE

    @property
    def is_silent(self) -> bool:
        """Whether nothing has arrived that the event loop has not seen yet, like the end of an idle connection."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close it at once; closing it in order would wait for the server."""
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
            # Between two requests, a server has nothing to say.
            self.close()
            return
        try:
            self._http.receive_data(data)
            self._read(self._incoming)
        except h11.ProtocolError as error:
            self._end(error)

    def _read(self, incoming: Incoming) -> None:
        while self._hints <= MOST_HINTS:
            match self._http.next_event():
                case h11.InformationalResponse():
                    self._hints += 1
                case h11.Response() as head:
                    incoming.headers |= {
                        name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers
                    }
                    incoming.status = head.status_code
                case h11.Data() as part:
                    incoming.body += part.data
                    if len(incoming.body) > incoming.most:
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
        """Begin anew after a request that was sent and answered completely; else close."""
        is_over = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # Neither side may have more to say: it would be taken for a part of the next request or reply.
        is_quiet = not self._transport.get_write_buffer_size() and not self._http.trailing_data[0]
        if is_over and is_quiet and self._is_open:
            self._http.start_next_cycle()
            self.idle_since = self._loop.time()
        else:
            self.close()
