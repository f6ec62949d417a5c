"""One request and its reply, limited in time and size; redirects are not followed."""

import asyncio
import codecs
import os
import re
import ssl
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import httpcore
from django.conf import settings

from schedules.tasks.outbound.connections import Channel, channel_of_this_loop, prepare
from schedules.tasks.outbound.errors import OutboundError
from schedules.tasks.outbound.targets import Reply, Target
from schedules.tasks.time_limit import TimeLimit

__all__ = ["prepare", "send"]

USER_AGENT = "Cronty"
BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
# How a TLS handshake fails with a server that answers it in clear text.
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
# Not everything that Python can decode: some codecs take very long.
CHARSET = re.compile(
    r"charset=\"?(iso-8859-(?:[1-9]|1[013-6])|windows-125[0-8]|utf-16(?:le|be)?|shift_jis|euc-jp|euc-kr|gbk|gb2312"
    r"|gb18030|big5|koi8-[ru])(?![^\s;\"])",
    re.IGNORECASE,
)


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
            async with TimeLimit(limit) as timer:
                return await _exchange(channel, request, timer)
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


async def _exchange(channel: Channel, request: _Request, timer: asyncio.Timeout) -> Reply:
    headers = {
        "user-agent": USER_AGENT,
        **request.headers,
        "accept-encoding": "identity",
        "host": request.target.origin.partition("://")[2],
    }
    content = request.content
    if content is None and request.method in ("POST", "PUT", "PATCH"):
        # Some servers refuse a request that does not say that it is empty.
        content = b""
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    url = _url_of(request.target)
    try:
        async with (
            channel.connection(url.origin, request.trusted) as connection,
            connection.stream(request.method, url, headers=encoded, content=content) as response,
        ):
            return await _read(response, timer)
    except BROKEN as error:
        raise _connection_error(request.target.host, error) from error


def _url_of(target: Target) -> httpcore.URL:
    return httpcore.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.path.encode(),
    )


async def _read(response: httpcore.Response, timer: asyncio.Timeout) -> Reply:
    """Return what arrives of the reply in time: the server has the request, and must not get it again."""
    most = settings.CRONTY_OUTBOUND_BYTES
    left = (timer.when() or 0.0) - asyncio.get_running_loop().time()
    timer.reschedule(None)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    body = bytearray()
    is_complete = False
    with suppress(TimeoutError, *BROKEN):
        async with TimeLimit(left):
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) > most:
                    break
            is_complete = len(body) <= most
    data = bytes(body)
    # Some servers compress although the request asks them not to.
    if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        data = _unpacked(data, most + 1)
    charset = CHARSET.search(headers.get("content-type", ""))
    truncated = not is_complete or len(data) > most
    decoder = codecs.getincrementaldecoder(charset[1] if charset else "utf-8")("replace")
    # Without a part of a character at the end, which would hide a part of a secret from the mask.
    text = decoder.decode(data[:most], final=not truncated)
    return Reply(response.status, headers, text, truncated=truncated)


def _unpacked(data: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, most)
    except zlib.error:
        return data


def _connection_error(host: str, error: Exception) -> OutboundError:
    cause: BaseException = error
    while cause.__cause__:
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        words = f"its certificate is not valid ({cause.verify_message})"
        return OutboundError(f"Can't reach {host}: {words}.", retryable=False)
    if isinstance(error, httpcore.LocalProtocolError):
        # The library's own words may quote a header, which may be a credential.
        return OutboundError(f"Can't reach {host}: the request is not valid HTTP.", retryable=False)
    if isinstance(cause, ssl.SSLError):
        words = "it does not speak https there" if cause.reason in NOT_TLS else str(cause)
    elif isinstance(cause, OSError) and cause.errno:
        # The text of the error itself may name the address, which tells how a name resolves inside this network.
        words = os.strerror(cause.errno)
    else:
        words = str(error) or "the connection broke"
    words = f"{words[:1].lower()}{words[1:]}" if words[1:2].islower() else words
    return OutboundError(f"Can't reach {host}: {words.rstrip('.')}.", retryable=True)
