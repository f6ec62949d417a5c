"""Parse and check the ports and hosts of command lines."""

import errno
import re
import socket
from argparse import ArgumentTypeError
from ipaddress import ip_address

from django.conf import settings
from django.core.management.base import CommandError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def port(text: str) -> int:
    """Parse a port number."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        raise ArgumentTypeError(f"{text[:20]} is not a port: choose 1 to 65535.")
    return int(text)


def host_in_url(host: str) -> str:
    """Format a host for a URL: IPv6 in brackets, and loopback instead of "all interfaces"."""
    try:
        address = ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.version == 4:
        return "127.0.0.1" if address.is_unspecified else host
    return "[::1]" if address.is_unspecified else f"[{host}]"


def refuse_public_debug(host: str) -> None:
    """Raise CommandError if other machines could see error pages with source code and settings."""
    if settings.DEBUG and host not in LOOPBACK:
        raise CommandError(f"--host {host}: not with CRONTY_DEBUG on; use 127.0.0.1.")


def refuse_address(host: str, port: int) -> None:
    """Raise CommandError if this process cannot listen at an address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError as error:
            raise CommandError(f"--port {port}: you may not use it; choose one above 1023.") from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                message = f"--port {port}: something else listens there; choose another one."
            else:
                message = f"--host {host}: this machine has no such address ({error.strerror})."
            raise CommandError(message) from error
