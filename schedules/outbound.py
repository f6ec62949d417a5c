"""How does anything leave for another host? Through `send`, which guards addresses, time and size."""

import asyncio
import functools
import json as jsonlib
import re
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpcore
import idna
from django.conf import settings

Address = IPv4Address | IPv6Address
_Owner = tuple[str, bool]

LONGEST_URL = 2048
MOST_CONNECTIONS = 256
MOST_ADDRESSES = 8
IDLE_SECONDS = 5.0
PORTS = {"http": 80, "https": 443}
USER_AGENT = "Cronty"

# Written out rather than asked of `is_global`, whose answer differs between Python versions
# and which calls multicast and several transition forms global.
NOT_PUBLIC_BLOCKS = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
"""
NOT_PUBLIC = [ip_network(block) for block in NOT_PUBLIC_BLOCKS.split()]
GLOBAL_IPV6 = IPv6Network("2000::/3")
# Both carry an IPv4 address in their last four bytes, and reach exactly that.
CARRIERS = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]


class OutboundError(Exception):
    """The other side was not reached or did not answer properly."""

    def __init__(self, words: str, *, retryable: bool) -> None:
        super().__init__(words)
        self.retryable = retryable


class Refused(OutboundError):  # noqa: N818
    """The guard does not let this request out."""

    def __init__(self, words: str) -> None:
        super().__init__(words, retryable=False)


@dataclass(frozen=True)
class Reply:
    """What came back; header names are in lower case, and `truncated` says that the text goes on."""

    status: int
    headers: dict[str, str]
    text: str
    truncated: bool


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: Any = None,
    content: bytes | None = None,
    timeout: float | None = None,
    redirects: int = 0,
    trusted: bool = False,
) -> Reply:
    """Send one request and return the reply, whatever its status; `trusted` is for the operator's own hosts."""
    fields = {name.lower(): value for name, value in (headers or {}).items()}
    if json is not None:
        content = jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
        fields.setdefault("content-type", "application/json")
    request = _Request(method, _Target.parse(url), fields, content, trusted)
    limit = min(timeout or settings.CRONTY_OUTBOUND_TIMEOUT, settings.CRONTY_OUTBOUND_TIMEOUT)
    channel = await _channel()
    # Waiting for a place is not the other side's fault, so it does not count against the limit.
    async with channel.places:
        try:
            async with asyncio.timeout(limit):
                return await _follow(channel, request, redirects)
        except TimeoutError as error:
            raise OutboundError(
                f"{request.target.host}: no answer within {limit:g} s", retryable=True
            ) from error


def problem_with_url(url: str) -> str | None:
    """Say why `send` would refuse this URL, as far as that is known without asking the network."""
    try:
        target = _Target.parse(url)
        if literal := _literal(target.host):
            _guard(target.host, target.port, [literal])
    except Refused as refused:
        return str(refused)
    return None


@dataclass(frozen=True)
class _Target:
    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "_Target":
        if len(url) > LONGEST_URL:
            raise Refused(f"The URL is longer than {LONGEST_URL} characters.")
        if re.search(r"[\x00-\x20\x7f\\]", url):
            raise Refused("The URL contains a space, a backslash or a control character.")
        try:
            parts = urlsplit(url)
            port = parts.port
            host = _ascii_host(parts.hostname or "")
        except ValueError as error:
            raise Refused(f"Not a URL: {error}.") from error
        if parts.scheme not in PORTS:
            raise Refused("The URL must begin with http:// or https://.")
        if "@" in parts.netloc:
            raise Refused("The URL must not contain a user name or password.")
        if not host:
            raise Refused("The URL names no host.")
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else ""
        return cls(parts.scheme, host, port or PORTS[parts.scheme], path + query)

    def joined(self, location: str) -> "_Target":
        try:
            url = urljoin(self.origin + self.path, location)
        except ValueError as error:
            raise Refused(f"{self.host} redirects to what is not a URL: {error}.") from error
        return _Target.parse(url)

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def for_httpcore(self) -> httpcore.URL:
        return httpcore.URL(
            scheme=self.scheme.encode(), host=self.host.encode(), port=self.port, target=self.path.encode()
        )


@dataclass(frozen=True)
class _Request:
    method: str
    target: _Target
    headers: Mapping[str, str]
    content: bytes | None
    trusted: bool

    def redirected(self, reply: Reply) -> "_Request":
        target = self.target.joined(reply.headers["location"])
        same_origin = target.origin == self.target.origin
        if reply.status in (307, 308):
            method, content = self.method, self.content
        else:
            method, content = ("HEAD" if self.method == "HEAD" else "GET"), None
        if same_origin:
            return _Request(method, target, self.headers, content, self.trusted)
        if content is not None:
            raise Refused(f"{self.target.host} redirects to another host, and the body is not sent there.")
        return _Request(method, target, {}, None, trusted=False)


async def _follow(channel: "_Channel", request: _Request, redirects: int) -> Reply:
    reply = await _exchange(channel, request)
    while redirects > 0 and reply.status in (301, 302, 303, 307, 308) and "location" in reply.headers:
        redirects -= 1
        request = request.redirected(reply)
        reply = await _exchange(channel, request)
    return reply


async def _exchange(channel: "_Channel", request: _Request) -> Reply:
    headers = {
        "user-agent": USER_AGENT,
        **request.headers,
        "accept-encoding": "identity",
        "host": request.target.origin.partition("://")[2],
    }
    url = request.target.for_httpcore()
    try:
        async with (
            channel.connection(url.origin, request.trusted) as connection,
            connection.stream(
                request.method, url, headers=list(headers.items()), content=request.content
            ) as response,
        ):
            return await _read(response)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise _unreached(request.target.host, error) from error


async def _read(response: httpcore.Response) -> Reply:
    most = settings.CRONTY_OUTBOUND_BYTES
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > most:
            break
    data = bytes(body)
    # Some servers pack although asked not to.
    if headers.get("content-encoding", "").lower() in ("gzip", "deflate"):
        data = _unpacked(data, most + 1)
    truncated = max(len(body), len(data)) > most
    return Reply(response.status, headers, data[:most].decode(errors="replace"), truncated)


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, most)
    except zlib.error:
        return data


def _unreached(host: str, error: Exception) -> OutboundError:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return OutboundError(f"{host}: its certificate is not valid: {cause.verify_message}", retryable=False)
    words = str(error) or "the connection broke"
    return OutboundError(f"{host}: {words}", retryable=not isinstance(error, httpcore.LocalProtocolError))


class _Guard(httpcore.AnyIOBackend):
    """Connect to checked addresses only: here, because what is checked and what is connected to must be one."""

    def __init__(self, trusted: bool) -> None:
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
        addresses = await _resolve(host, port)
        if not self.trusted:
            _guard(host, port, addresses)
        # A dead address must leave time for the next one.
        share = settings.CRONTY_OUTBOUND_TIMEOUT / min(len(addresses), MOST_ADDRESSES)
        for address in addresses[:MOST_ADDRESSES]:
            try:
                self.stream = await super().connect_tcp(
                    str(address), port, share, local_address, socket_options
                )
                return self.stream
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


async def _resolve(host: str, port: int) -> list[Address]:
    if literal := _literal(host):
        return [literal]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(f"{host}: the name cannot be resolved ({error})", retryable=True) from error
    # In the resolver's order, each once.
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


def _literal(host: str) -> Address | None:
    """Read an address as the resolver would, with spellings like 127.1 and 0x7f000001; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    return idna.encode(host, uts46=True).decode()


def _guard(host: str, port: int, addresses: list[Address]) -> None:
    for address in addresses:
        if not _is_public(address) and not _is_allowed(host, port, address):
            where = host if host == str(address) else f"{host} ({address})"
            raise Refused(
                f"{where} is not a public address; the operator can allow it in CRONTY_OUTBOUND_ALLOW."
            )


def _is_public(address: Address) -> bool:
    address = _carried(address)
    if isinstance(address, IPv6Address) and address not in GLOBAL_IPV6:
        return False
    return not any(address in block for block in NOT_PUBLIC)


def _carried(address: Address) -> Address:
    if any(address in carrier for carrier in CARRIERS):
        return IPv4Address(address.packed[-4:])
    return address


def _is_allowed(host: str, port: int, address: Address) -> bool:
    return any(_matches(entry, host, port, _carried(address)) for entry in settings.CRONTY_OUTBOUND_ALLOW)


def _matches(entry: str, host: str, port: int, address: Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        parts = urlsplit(f"//{entry}")
    if parts.port not in (None, port):
        return False
    name = parts.hostname or ""
    return name == host.lower().rstrip(".") or name == str(address)


class _Connection(httpcore.AsyncHTTPConnection):
    def __init__(self, origin: httpcore.Origin, trusted: bool) -> None:
        self.guard = _Guard(trusted)
        super().__init__(
            origin, ssl_context=_ssl_context(), keepalive_expiry=IDLE_SECONDS, network_backend=self.guard
        )

    async def aclose(self) -> None:
        await super().aclose()
        # httpcore forgets its socket when a TLS handshake is cancelled.
        if self.guard.stream is not None:
            await self.guard.stream.aclose()


class _Channel:
    """The connections of one event loop. Not httpcore's own pool, whose cost grows with the square of its size."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(MOST_CONNECTIONS)
        self.idle: list[tuple[_Owner, _Connection]] = []

    @asynccontextmanager
    async def connection(self, origin: httpcore.Origin, trusted: bool) -> AsyncIterator[_Connection]:
        # The owner includes trust: a connection opened on trust must not be there for others to use.
        owner = str(origin), trusted
        connection = await self._reuse(owner) or _Connection(origin, trusted)
        try:
            yield connection
        finally:
            await self._give_back(owner, connection)

    async def close(self) -> None:
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
        if connection.is_idle() and not connection.has_expired():
            self.idle.append((owner, connection))
        else:
            await connection.aclose()
        # The oldest come first.
        while self.idle and self.idle[0][1].has_expired():
            await self.idle.pop(0)[1].aclose()


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    return httpcore.default_ssl_context()


_channels: dict[asyncio.AbstractEventLoop, tuple[_Channel, AsyncGenerator[_Channel, None]]] = {}


async def _channel() -> _Channel:
    loop = asyncio.get_running_loop()
    if loop not in _channels:
        life = _channel_life(loop)
        _channels[loop] = await anext(life), life
    return _channels[loop][0]


async def _channel_life(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[_Channel, None]:
    # A generator, because a loop that ends closes its unfinished generators: no owner has to remember to.
    channel = _Channel()
    try:
        yield channel
    finally:
        del _channels[loop]
        await channel.close()
