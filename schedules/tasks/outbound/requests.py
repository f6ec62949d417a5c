"""One request and its reply, limited in time and size; redirects are not followed."""

import asyncio
import re
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import httpcore
from django.conf import settings

from schedules.tasks.outbound.connections import Channel, channel_of_this_loop
from schedules.tasks.outbound.errors import OutboundError
from schedules.tasks.outbound.targets import Reply, Target

USER_AGENT = "Cronty"


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
    request = _Request(method, Target.parse(url), fields, content, trusted)
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


@dataclass(frozen=True)
class _Request:
    method: str
    target: Target
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
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    url = _url_of(request.target)
    try:
        async with (
            channel.connection(url.origin, request.trusted) as connection,
            connection.stream(request.method, url, headers=encoded, content=request.content) as response,
        ):
            return await _read(response)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        raise _connection_error(request.target.host, error) from error


def _url_of(target: Target) -> httpcore.URL:
    return httpcore.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.path.encode(),
    )


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
    if isinstance(error, httpcore.LocalProtocolError):
        # The library's own words may quote a header, which may be a credential.
        return OutboundError(f"Can't reach {host}: the request is not valid HTTP.", retryable=False)
    # "[Errno 111] Connection refused" is in the system's own words.
    words = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or "the connection broke"
    words = f"{words[:1].lower()}{words[1:]}" if words[1:2].islower() else words
    return OutboundError(f"Can't reach {host}: {words.rstrip('.')}.", retryable=True)
