"""Destinations: parse the networks, addresses and hosts that the operator lets webhooks reach."""

import functools
import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import idna

EXAMPLES = "10.0.0.0/8, 192.168.1.5, nas.local, nas.local:8080 or [fd00::1]:8080"

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# The last label of a name is never a number: 300.1.1.1 and 10.0.0 are mistyped addresses.
_NAME = re.compile(rf"(?=.{{1,253}}$)({_LABEL}\.)*(?![0-9]+$|0[xX][0-9A-Fa-f]*$){_LABEL}")
_WITH_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:]+):(?P<port>[1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Destination:
    """One entry of the setting: a network or a host name, with an optional port."""

    network: IPv4Network | IPv6Network | None
    name: str
    port: int | None

    def includes(self, host: str, port: int, address: IPv4Address | IPv6Address) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is None:
            return self.name == host.lower().rstrip(".")
        return address in self.network


@functools.cache
def parse_destination(entry: str) -> Destination:
    """Parse an entry, or raise ValueError with a sentence that says what to write instead."""
    if "/" in entry:
        return Destination(_network(entry), "", None)
    match = _WITH_PORT.fullmatch(entry)
    host, port = (match["host"], int(match["port"])) if match else (entry, None)
    if port is not None and port > 65_535:
        raise ValueError(f"the port of {entry!r} is not between 1 and 65535.")
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") == host.endswith("]") else host
    try:
        return Destination(ip_network(ip_address(bare)), "", port)
    except ValueError:
        pass
    if host != bare or not _NAME.fullmatch(host):
        raise ValueError(f"use networks and hosts like {EXAMPLES}, not {entry!r}.")
    return Destination(None, host.lower(), port)


def ascii_host(host: str) -> str:
    """Return an international name in its ASCII form; raises ValueError if it has none."""
    try:
        return host if host.isascii() else idna.encode(host, uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{host!r} is not the name of a host.") from error


def place(host: str, port: int | None = None, scheme: str = "https") -> str:
    """Return a host in normal form, with its port unless that is 443 of https, so that places can be compared."""
    host = host.lower().rstrip(".")
    with suppress(ValueError):
        host = str(ip_address(host))
    if port is None or (scheme, port) == ("https", 443):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _network(entry: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(entry)
    except ValueError:
        pass
    try:
        wider = ip_network(entry, strict=False)
    except ValueError as error:
        raise ValueError(f"use networks and hosts like {EXAMPLES}, not {entry!r}.") from error
    raise ValueError(f"{entry!r} is an address within a network: write {wider} or {entry.partition('/')[0]}.")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself, so that others cannot reach it by that name."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
