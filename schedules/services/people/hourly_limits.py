"""Limits per hour, counted in the memory of this process, on costly or anonymous requests, and the addresses to count by."""

import threading
from collections import deque
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

from schedules import clock

# The least recently counted keys are dropped first.
MAX_KEYS = 10_000


class HourlyLimit:
    """Counts requests per key, such as the address of a client."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def allows(self, key: str) -> bool:
        """Return whether one more request is allowed, and count it if so."""
        now = clock.steady()
        with self._lock:
            # Re-insert the key, so that the dict stays ordered by last use.
            times = self._times[key] = self._times.pop(key, deque(maxlen=self._limit))
            if len(self._times) > MAX_KEYS:
                del self._times[next(iter(self._times))]
            if len(times) == self._limit and times[0] > now - 3600:
                return False
            times.append(now)
            return True


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
