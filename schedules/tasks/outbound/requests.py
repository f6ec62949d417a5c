"""One request and its reply, limited in time and size; redirects are not followed."""

import asyncio
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httpcore
import idna
from django.conf import settings

from schedules.tasks.outbound.addresses import guard, known_address
from schedules.tasks.outbound.connections import Channel, channel_of_this_loop
from schedules.tasks.outbound.errors import OutboundError, Refused

LONGEST_URL = 2048
PORTS = {"http": 80, "https": 443}
USER_AGENT = "Cronty"


@dataclass(frozen=True)
class Reply:
    """A reply; header names are in lower case, and `truncated` means that the text was cut off."""

    status: int
    headers: dict[str, str]
    text: str
    truncated: bool


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    trusted: bool = False,
) -> Reply:
    """Send one request and return the reply, whatever its status; `trusted` allows the operator's own hosts."""
    fields = {name.lower(): value for name, value in (headers or {}).items()}
    request = _Request(method, _Target.parse(url), fields, content, trusted)
    limit = settings.CRONTY_OUTBOUND_TIMEOUT
    channel = await channel_of_this_loop()
    # Waiting for a free connection does not count against the time limit.
    async with channel.capacity:
        try:
            async with asyncio.timeout(limit):
                return await _exchange(channel, request)
        except TimeoutError as error:
            raise OutboundError(
                f"Can't reach {request.target.host}: no answer within {limit:g} s.", retryable=True
            ) from error


def problem_with_url(url: str) -> str | None:
    """Return why `send` would refuse this URL, as far as that is known without a network request, or None."""
    try:
        target = _Target.parse(url)
        if address := known_address(target.host):
            guard(target.host, target.port, [address])
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
            raise Refused("The URL must start with http:// or https://.")
        if "@" in parts.netloc:
            raise Refused("The URL must not contain a user name or password.")
        if not host:
            raise Refused("The URL has no host name.")
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else ""
        return cls(parts.scheme, host, port or PORTS[parts.scheme], path + query)

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


async def _exchange(channel: Channel, request: _Request) -> Reply:
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
        raise _connection_error(request.target.host, error) from error


async def _read(response: httpcore.Response) -> Reply:
    most = settings.CRONTY_OUTBOUND_BYTES
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > most:
            break
    data = bytes(body)
    # Some servers compress although the request asks them not to.
    if headers.get("content-encoding", "").lower() in ("gzip", "deflate"):
        data = _unpacked(data, most + 1)
    truncated = max(len(body), len(data)) > most
    return Reply(response.status, headers, data[:most].decode(errors="replace"), truncated)


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, most)
    except zlib.error:
        return data


def _connection_error(host: str, error: Exception) -> OutboundError:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        words = f"its certificate is not valid ({cause.verify_message})"
        return OutboundError(f"Can't reach {host}: {words}.", retryable=False)
    # "[Errno 111] Connection refused" is in the system's own words.
    words = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or "the connection broke"
    words = f"{words[:1].lower()}{words[1:]}" if words[1:2].islower() else words
    is_final = isinstance(error, httpcore.LocalProtocolError)
    return OutboundError(f"Can't reach {host}: {words.rstrip('.')}.", retryable=not is_final)


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    return idna.encode(host, uts46=True).decode()
