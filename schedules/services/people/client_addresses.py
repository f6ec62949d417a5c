"""IP addresses of clients, and the key under which requests of one client are counted."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address


def address_of(text: str) -> Address | None:
    """Parse an address, with or without a port or a zone; return None if it is invalid."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 clients as mapped addresses.
    return getattr(address, "ipv4_mapped", None) or address


def network_of(text: str) -> str | None:
    """Return the key to count requests by: an IPv4 address, or the /64 network of an IPv6 client."""
    address = address_of(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False).network_address)
    return str(address) if address else None
