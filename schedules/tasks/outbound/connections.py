"""Connections to checked addresses, reused between requests to the same host; each event loop keeps its own."""

import asyncio
import functools
import ssl
from collections import deque
from collections.abc import AsyncGenerator

import certifi
from django.conf import settings

from schedules.tasks.outbound.addresses import Resolver, guard
from schedules.tasks.outbound.http1 import Connection
from schedules.tasks.outbound.targets import Target
from schedules.tasks.time_limit import TimeLimit

MOST_CONNECTIONS = 256
MOST_ADDRESSES = 8
IDLE_SECONDS = 5.0
# So many requests to a host open a connection at once; others wait for so many seconds for one that is given back. A quick
# host answers a burst over few connections, and a slow one gets as many as there are requests.
OPEN_AT_ONCE = 8
WAIT_FOR_REUSE = 0.02
# Of asyncio's own limit for a TLS handshake, which counts time in which the process stood still; ours is shorter.
NO_LIMIT = 86_400.0


class Host:
    """The connections of one event loop to one host, trusted or not: an untrusted request must not reuse a trusted one."""

    def __init__(self, target: Target, resolver: Resolver, *, trusted: bool) -> None:
        self._target, self._resolver, self._trusted = target, resolver, trusted
        self._idle: list[Connection] = []
        self._taken = 0
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """Return a connection for one request, to be given back."""
        connection = self._reuse()
        if connection is None and self._taken >= OPEN_AT_ONCE:
            connection = await self._wait()
        self._taken += 1
        try:
            return connection or await self._open()
        except BaseException:
            self._taken -= 1
            raise

    def give_back(self, connection: Connection) -> None:
        self._taken -= 1
        self._offer(connection)

    def close_expired(self) -> bool:
        """Close the connections that were idle for too long; return whether this host is in use."""
        self._idle = [connection for connection in self._idle if _is_usable(connection)]
        return bool(self._idle or self._taken or self._waiting)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _reuse(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if _is_usable(connection):
                return connection
        return None

    def _offer(self, connection: Connection) -> None:
        if not connection.is_reusable:
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        self._idle.append(connection)

    async def _wait(self) -> Connection | None:
        """Return the next connection that is given back, or None if that takes too long."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(WAIT_FOR_REUSE, _give_up, turn)
        try:
            connection = await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and (connection := turn.result()):
                self._offer(connection)
            raise
        finally:
            timer.cancel()
        return connection if connection and _is_usable(connection) else None

    async def _open(self) -> Connection:
        """Connect to a checked address; the check is here so that the checked address is the one used."""
        host, port = self._target.host, self._target.port
        addresses = await self._resolver.resolve(host)
        if not self._trusted:
            guard(host, port, addresses)
        is_tls = self._target.scheme == "https"
        # An address that does not answer must leave time for the next one.
        share = settings.CRONTY_OUTBOUND_TIMEOUT / min(len(addresses), MOST_ADDRESSES)
        loop = asyncio.get_running_loop()
        for address in addresses[:MOST_ADDRESSES]:
            try:
                async with TimeLimit(share):
                    _, connection = await loop.create_connection(
                        Connection,
                        str(address),
                        port,
                        ssl=_ssl_context() if is_tls else None,
                        server_hostname=host if is_tls else None,
                        ssl_handshake_timeout=NO_LIMIT if is_tls else None,
                    )
                return connection
            except OSError as error:
                failure = error
        raise failure


def _is_usable(connection: Connection) -> bool:
    is_fresh = asyncio.get_running_loop().time() < connection.idle_since + IDLE_SECONDS
    if is_fresh and connection.is_reusable and connection.is_silent:
        return True
    connection.close()
    return False


def _give_up(turn: asyncio.Future[Connection | None]) -> None:
    if not turn.done():
        turn.set_result(None)


class Channel:
    """The hosts that one event loop is connected to."""

    def __init__(self) -> None:
        self.capacity = asyncio.Semaphore(MOST_CONNECTIONS)
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver()
        self.hosts: dict[tuple[str, bool], Host] = {}
        self._cleaning: asyncio.TimerHandle | None = None

    def host(self, target: Target, *, trusted: bool) -> Host:
        """Return the connections to the host of a target."""
        key = target.origin, trusted
        if key not in self.hosts:
            self.hosts[key] = Host(target, self._resolver, trusted=trusted)
        if self._cleaning is None:
            self._cleaning = self._loop.call_later(IDLE_SECONDS, self._clean)
        return self.hosts[key]

    def close(self) -> None:
        if self._cleaning:
            self._cleaning.cancel()
        self._resolver.close()
        for host in self.hosts.values():
            host.close()

    def _clean(self) -> None:
        self._cleaning = None
        self.hosts = {key: host for key, host in self.hosts.items() if host.close_expired()}
        if self.hosts:
            self._cleaning = self._loop.call_later(IDLE_SECONDS, self._clean)


def prepare() -> None:
    """Load the certificates, for which the first request of a process would wait."""
    _ssl_context()


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


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
        channel.close()
        # The sockets are closed in the next step of the loop.
        await asyncio.sleep(0)
