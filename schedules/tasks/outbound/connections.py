"""Connections to checked addresses; each event loop keeps its own."""

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio
import httpcore
from django.conf import settings

from schedules.tasks.outbound.addresses import Resolver, guard
from schedules.tasks.time_limit import TimeLimit

MOST_CONNECTIONS = 256
MOST_ADDRESSES = 8
IDLE_SECONDS = 5.0

_Owner = tuple[str, bool]


class _Guard(httpcore.AnyIOBackend):
    """Connects to checked addresses only; the check is here so that the checked address is the one used."""

    def __init__(self, resolver: Resolver, trusted: bool) -> None:
        self.resolver = resolver
        self.trusted = trusted
        self.stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self.resolver.resolve(host)
        if not self.trusted:
            guard(host, port, addresses)
        # An address that does not answer must leave time for the next one.
        share = settings.CRONTY_OUTBOUND_TIMEOUT / min(len(addresses), MOST_ADDRESSES)
        failure: httpcore.ConnectError | httpcore.ConnectTimeout
        for address in addresses[:MOST_ADDRESSES]:
            try:
                async with TimeLimit(share):
                    self.stream = await super().connect_tcp(
                        str(address), port, None, local_address, socket_options
                    )
                return self.stream
            except TimeoutError as error:
                failure = httpcore.ConnectTimeout(str(error))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _Connection(httpcore.AsyncHTTPConnection):
    def __init__(self, origin: httpcore.Origin, resolver: Resolver, trusted: bool) -> None:
        self.guard = _Guard(resolver, trusted)
        super().__init__(
            origin, ssl_context=_ssl_context(), keepalive_expiry=IDLE_SECONDS, network_backend=self.guard
        )

    async def aclose(self) -> None:
        await super().aclose()
        # httpcore does not close its socket when a TLS handshake is cancelled.
        if self.guard.stream is not None:
            await self.guard.stream.aclose()


class Channel:
    """The connections of one event loop; the cost of httpcore's own pool grows with the square of its size."""

    def __init__(self) -> None:
        self.capacity = asyncio.Semaphore(MOST_CONNECTIONS)
        self.resolver = Resolver()
        self.idle: list[tuple[_Owner, _Connection]] = []

    @asynccontextmanager
    async def connection(self, origin: httpcore.Origin, trusted: bool) -> AsyncIterator[_Connection]:
        # Trust is part of the key: an untrusted request must not reuse a trusted connection.
        owner = str(origin), trusted
        connection = await self._reuse(owner) or _Connection(origin, self.resolver, trusted)
        try:
            yield connection
        finally:
            await self._give_back(owner, connection)

    async def close(self) -> None:
        self.resolver.close()
        while self.idle:
            await self.idle.pop()[1].aclose()

    async def _reuse(self, owner: _Owner) -> _Connection | None:
        for entry in reversed(self.idle):
            if entry[0] == owner:
                self.idle.remove(entry)
                if not entry[1].has_expired():
                    return entry[1]
                await entry[1].aclose()
        return None

    async def _give_back(self, owner: _Owner, connection: _Connection) -> None:
        if connection.is_idle():
            self.idle.append((owner, connection))
        else:
            await connection.aclose()
        # The oldest connections come first.
        while self.idle and self.idle[0][1].has_expired():
            await self.idle.pop(0)[1].aclose()


def prepare() -> None:
    """Load what the first request of a process would wait for: certificates, and the library's code for this event loop."""
    _ssl_context()
    asyncio.run(anyio.sleep(0))


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    return httpcore.default_ssl_context()


_channels: dict[asyncio.AbstractEventLoop, tuple[Channel, AsyncGenerator[Channel, None]]] = {}


async def channel_of_this_loop() -> Channel:
    """Return the connections of the running event loop, which closes them when it ends."""
    loop = asyncio.get_running_loop()
    if loop not in _channels:
        life = _channel_life(loop)
        _channels[loop] = await anext(life), life
    return _channels[loop][0]


async def _channel_life(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Channel, None]:
    # An event loop closes its unfinished generators when it ends, and that closes the channel.
    channel = Channel()
    try:
        yield channel
    finally:
        del _channels[loop]
        await channel.close()
