"""Command-line arguments: ports and hosts."""

import re
from argparse import ArgumentTypeError
from ipaddress import ip_address


def port(text: str) -> int:
    """Parse the number of a port to listen on."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        raise ArgumentTypeError(f"{text[:20]} is no port: choose 1 to 65535.")
    return int(text)


def host_in_url(host: str) -> str:
    """Write a host as a URL needs it: IPv6 in brackets, and loopback for "all interfaces"."""
    try:
        address = ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.version == 4:
        return "127.0.0.1" if address.is_unspecified else host
    return "[::1]" if address.is_unspecified else f"[{host}]"
