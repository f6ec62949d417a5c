"""Name resolution, the check that addresses are public or allowed by the operator, and the errors of requests."""

import asyncio
import functools
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings

from schedules.tasks.outbound.destinations import Destination, parse_destination

Address = IPv4Address | IPv6Address

# Our own list: `is_global` differs between Python versions, and includes multicast and several transition formats.
NOT_PUBLIC_BLOCKS = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
"""
NOT_PUBLIC = [ip_network(block) for block in NOT_PUBLIC_BLOCKS.split()]
GLOBAL_IPV6 = IPv6Network("2000::/3")
# Addresses in these networks contain an IPv4 address in their last four bytes.
IPV4_IN_IPV6 = [IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")]
MAX_LOOKUPS = 32
# How long the result of a lookup is reused: the requests of one burst share it.
FRESH_SECONDS = 1.0

# Stands for an address that is not known; no operator lists a network that contains it.
UNKNOWN = IPv4Address("255.255.255.255")

LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}


class OutboundError(Exception):
    """The other host was not reached, or did not answer properly."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class Refused(OutboundError):  # noqa: N818  (reads like the rule that it reports)
    """The request is not allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


@dataclass
class _Lookup:
    """One lookup in a thread, its result in the event loop, and the number of requests that wait for it."""

    call: Future[list[Address]]
    result: asyncio.Future[list[Address]]
    waiters: int = 0


class Resolver:
    """Looks up names in a separate pool: a slow name server must not block the threads that everything else uses."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, "lookup")
        self._lookups: dict[str, _Lookup] = {}

    async def resolve(self, host: str) -> list[Address]:
        """Return the addresses of a host, or raise OutboundError; the requests of a burst share a lookup."""
        if literal := literal_address(host):
            return [literal]
        lookup = self._lookups.get(host)
        if lookup is None or lookup.result.cancelled():
            lookup = self._start(host)
        lookup.waiters += 1
        try:
            addresses = await asyncio.shield(lookup.result)
        finally:
            lookup.waiters -= 1
            # Nobody waits for it any more: cancel it, if its thread has not started yet.
            if not lookup.waiters and lookup.call.cancel():
                lookup.result.cancel()
        if addresses:
            return addresses
        raise OutboundError(
            f"Can't reach {host}: DNS lookup failed. Check the address and this server's internet connection.",
            retryable=True,
        )

    def _start(self, host: str) -> _Lookup:
        call = self._threads.submit(_look_up, host)
        lookup = self._lookups[host] = _Lookup(call, asyncio.wrap_future(call))

        def forget() -> None:
            if self._lookups.get(host) is lookup:
                del self._lookups[host]

        def forget_soon(result: asyncio.Future[list[Address]]) -> None:
            if result.cancelled():
                forget()
            else:
                result.get_loop().call_later(FRESH_SECONDS, forget)

        lookup.result.add_done_callback(forget_soon)
        return lookup

    def close(self) -> None:
        for lookup in self._lookups.values():
            lookup.result.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[Address]:
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    # Without duplicates, in the resolver's order.
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in entries))


@functools.lru_cache(1024)
def literal_address(host: str) -> Address | None:
    """Parse an address as the resolver would, including 127.1 and 0x7f000001; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def known_address(host: str) -> Address | None:
    """Return the address of a host if it is known without a lookup: a literal one, or this machine's; else None."""
    bare = host.lower().rstrip(".")
    if bare in LOCAL_NAMES or bare.endswith(".localhost"):
        return IPv4Address("127.0.0.1")
    return literal_address(bare)


def guard(host: str, port: int, addresses: list[Address]) -> None:
    """Refuse a host if one of its addresses is neither public nor allowed by the operator."""
    for address in addresses:
        if not _is_public(address) and not _is_allowed(host, port, address):
            # Does not mention the address: the caller must not learn how names resolve inside this network.
            raise Refused(
                f"{host} is not a public address; the operator can allow it in CRONTY_OUTBOUND_ALLOW."
            )


def is_allowed_in_clear(host: str, port: int) -> bool:
    """Return whether the operator lists this host, by name or address, so that it may be reached without TLS."""
    address = known_address(host) or UNKNOWN
    return any(entry.includes(host, port, address) for entry in _allowed())


@functools.lru_cache(1024)
def _is_public(address: Address) -> bool:
    address = _embedded_ipv4(address)
    if isinstance(address, IPv6Address) and address not in GLOBAL_IPV6:
        return False
    return not any(address in block for block in NOT_PUBLIC)


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address, or the address itself."""
    if any(address in network for network in IPV4_IN_IPV6):
        return IPv4Address(address.packed[-4:])
    return address


def _is_allowed(host: str, port: int, address: Address) -> bool:
    plain = _embedded_ipv4(address)
    return any(entry.includes(host, port, plain) for entry in _allowed())


def _allowed() -> Iterator[Destination]:
    for entry in settings.CRONTY_OUTBOUND_ALLOW:
        # Invalid entries allow nothing; a system check reports them.
        with suppress(ValueError):
            yield parse_destination(entry)
