"""Sending one HTTP request and reading its reply, limited in time and size, without following redirects."""

import codecs
import os
import re
import ssl
import zlib
from collections.abc import Mapping

import h11
from django.conf import settings

from schedules.tasks.outbound.addresses import OutboundError
from schedules.tasks.outbound.connections import Host, pool_of_this_loop, prepare
from schedules.tasks.outbound.http1 import Incoming
from schedules.tasks.outbound.targets import Reply, Target
from schedules.tasks.time_limit import TimeLimit

__all__ = ["prepare", "send"]

USER_AGENT = "Cronty"
# The OpenSSL errors for a server that answers a TLS handshake in clear text.
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
# Not every codec of Python: some of them are very slow.
CHARSET = re.compile(
    r"charset=\"?(iso-8859-(?:[1-9]|1[013-6])|windows-125[0-8]|utf-16(?:le|be)?|shift_jis|euc-jp|euc-kr|gbk|gb2312"
    r"|gb18030|big5|koi8-[ru])(?![^\s;\"])",
    re.IGNORECASE,
)


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None,
    content: bytes | None,
    trusted: bool,
    timeout: float | None,
    max_bytes: int | None,
) -> Reply:
    """Send one request, as documented in `outbound.send`."""
    target = Target.parse(url)
    if content is None and method in ("POST", "PUT", "PATCH"):
        # Some servers refuse a request that does not say that it is empty.
        content = b""
    request = _request(method, target, headers or {}, content)
    incoming = Incoming(settings.CRONTY_OUTBOUND_BYTES if max_bytes is None else max_bytes)
    limit = settings.CRONTY_OUTBOUND_TIMEOUT if timeout is None else timeout
    pool = await pool_of_this_loop()
    # Waiting for a free connection does not count against the time limit.
    async with pool.capacity:
        timer = TimeLimit(limit)
        try:
            async with timer:
                await _exchange(pool.host(target, trusted=trusted), request, content, incoming)
        except (OSError, h11.ProtocolError) as error:
            if not incoming.status:
                reason = f"no answer within {limit:g} s" if timer.expired() else _reason_of(error)
                is_final = isinstance(error, ssl.SSLCertVerificationError)
                raise OutboundError(
                    f"Can't reach {target.host}: {reason}.", retryable=not is_final
                ) from error
    # An incomplete reply counts, too: the server has the request, and must not get it again.
    return _reply(incoming)


def _request(method: str, target: Target, headers: Mapping[str, str], content: bytes | None) -> h11.Request:
    fields = {
        "user-agent": USER_AGENT,
        **{name.lower(): value for name, value in headers.items()},
        "accept-encoding": "identity",
        "host": target.origin.partition("://")[2],
    }
    if content is not None:
        fields["content-length"] = str(len(content))
    try:
        encoded = [(name.encode(), value.encode()) for name, value in fields.items()]
        return h11.Request(method=method, target=target.path, headers=encoded)
    except h11.LocalProtocolError as error:
        # Without the library's message: it may quote a header with a credential.
        raise OutboundError(
            f"Can't reach {target.host}: the request is not valid HTTP.", retryable=False
        ) from error


async def _exchange(host: Host, request: h11.Request, content: bytes | None, incoming: Incoming) -> None:
    connection = await host.take()
    try:
        await connection.exchange(request, content, incoming)
    finally:
        host.give_back(connection)


def _reply(incoming: Incoming) -> Reply:
    headers, max_bytes = incoming.headers, incoming.max_bytes
    data = bytes(incoming.body)
    # Some servers compress although the request asks them not to.
    if headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
        data = _decompress(data, max_bytes + 1)
    charset = CHARSET.search(headers.get("content-type", ""))
    truncated = not incoming.is_complete or len(data) > max_bytes
    decoder = codecs.getincrementaldecoder(charset[1] if charset else "utf-8")("replace")
    # Drop an incomplete character at the end: replaced, it would hide a partial secret from the masker.
    text = decoder.decode(data[:max_bytes], final=not truncated)
    return Reply(incoming.status, headers, text, truncated=truncated)


def _decompress(data: bytes, max_bytes: int) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, max_bytes)
    except zlib.error:
        return data


def _reason_of(error: OSError | h11.ProtocolError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        reason = "it does not speak https there" if error.reason in NOT_TLS else str(error)
    elif isinstance(error, OSError) and error.errno:
        # Not the error's own text: it may contain the address that a name resolves to inside this network.
        reason = os.strerror(error.errno)
    elif isinstance(error, TimeoutError):
        reason = "connection timed out"
    else:
        reason = str(error) or "the connection broke"
    reason = f"{reason[:1].lower()}{reason[1:]}" if reason[1:2].islower() else reason
    return reason.rstrip(".")
