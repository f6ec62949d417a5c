"""Connection pools: connect to checked addresses, and reuse connections; each event loop has its own pool."""

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

MAX_CONNECTIONS = 256
MAX_ADDRESSES = 8
IDLE_SECONDS = 5.0
# Up to this many requests to a host open a connection at once; further ones first wait briefly for one to be given back.
# So a fast host answers a burst over few connections, and a slow one gets one for each request.
OPEN_AT_ONCE = 8
REUSE_WAIT_SECONDS = 0.02
# Disables asyncio's limit for a TLS handshake, which counts time in which the process was suspended; ours is shorter.
NO_HANDSHAKE_LIMIT = 86_400.0


class Host:
    """The pool for one host. Trusted requests have their own, so that no other request reuses their connections."""

    def __init__(self, target: Target, resolver: Resolver, *, trusted: bool) -> None:
        self._target, self._resolver, self._trusted = target, resolver, trusted
        self._idle: list[Connection] = []
        self._in_use = 0
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def take(self) -> Connection:
        """Return a connection for one request; it must be given back."""
        connection = self._reuse()
        if connection is None and self._in_use >= OPEN_AT_ONCE:
            connection = await self._wait()
        self._in_use += 1
        try:
            return connection or await self._open()
        except BaseException:
            self._in_use -= 1
            raise

    def give_back(self, connection: Connection) -> None:
        self._in_use -= 1
        self._offer(connection)

    def close_expired(self) -> bool:
        """Close connections that were idle for too long; return whether the pool is still needed."""
        self._idle = [connection for connection in self._idle if _is_usable(connection)]
        return bool(self._idle or self._in_use or self._waiting)

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
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    async def _wait(self) -> Connection | None:
        """Return the next connection that is given back, or None if that takes too long."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Connection | None] = loop.create_future()
        self._waiting.append(waiter)
        timer = loop.call_later(REUSE_WAIT_SECONDS, _give_up, waiter)
        try:
            connection = await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and (connection := waiter.result()):
                self._offer(connection)
            raise
        finally:
            timer.cancel()
        return connection if connection and _is_usable(connection) else None

    async def _open(self) -> Connection:
        """Connect to an address of the host, checked right here so that no other address can be used."""
        host, port = self._target.host, self._target.port
        addresses = await self._resolver.resolve(host)
        if not self._trusted:
            guard(host, port, addresses)
        is_tls = self._target.scheme == "https"
        # An address that does not answer must leave time for the others.
        seconds = settings.CRONTY_OUTBOUND_TIMEOUT / min(len(addresses), MAX_ADDRESSES)
        loop = asyncio.get_running_loop()
        for address in addresses[:MAX_ADDRESSES]:
            try:
                async with TimeLimit(seconds):
                    _, connection = await loop.create_connection(
                        Connection,
                        str(address),
                        port,
                        ssl=_ssl_context() if is_tls else None,
                        server_hostname=host if is_tls else None,
                        ssl_handshake_timeout=NO_HANDSHAKE_LIMIT if is_tls else None,
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


def _give_up(waiter: asyncio.Future[Connection | None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Pool:
    """The connections of one event loop, by host."""

    def __init__(self) -> None:
        self.capacity = asyncio.Semaphore(MAX_CONNECTIONS)
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver()
        self.hosts: dict[tuple[str, bool], Host] = {}
        self._cleaning: asyncio.TimerHandle | None = None

    def host(self, target: Target, *, trusted: bool) -> Host:
        """Return the pool for the host of a target."""
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
    """Load the certificates, so that the first request does not have to."""
    _ssl_context()


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


_pools: dict[asyncio.AbstractEventLoop, tuple[Pool, AsyncGenerator[Pool, None]]] = {}


async def pool_of_this_loop() -> Pool:
    """Return the pool of the running event loop, which closes it when the loop ends."""
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        lifetime = _pool_lifetime(loop)
        _pools[loop] = await anext(lifetime), lifetime
    return _pools[loop][0]


async def _pool_lifetime(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Pool, None]:
    # An event loop closes its unfinished generators when it ends, which closes the pool.
    pool = Pool()
    try:
        yield pool
    finally:
        del _pools[loop]
        pool.close()
        # The sockets are closed in the next iteration of the loop.
        await asyncio.sleep(0)
