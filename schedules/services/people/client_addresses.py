"""Addresses of clients, and what to count the requests of one client for."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address


def address_of(text: str) -> Address | None:
    """Parse an address, with or without a port or a zone; return None if it is none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A socket for both families shows IPv4 clients this way.
    return getattr(address, "ipv4_mapped", None) or address


def network_of(text: str) -> str | None:
    """Return the address to count requests for: one of IPv4, or the network that one client of IPv6 has."""
    address = address_of(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False).network_address)
    return str(address) if address else None
