"""Targets and replies of requests: parse and check a URL, without importing the HTTP library."""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from schedules.tasks.outbound.addresses import Refused, guard, known_address
from schedules.tasks.outbound.destinations import ascii_host, place

LONGEST_URL = 2048
PORTS = {"http": 80, "https": 443}
_UNSENDABLE = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True)
class Reply:
    """A reply; header names are in lower case, and `truncated` means that the text was cut off."""

    status: int
    headers: dict[str, str]
    text: str
    truncated: bool


def problem_with_url(url: str) -> str | None:
    """Return why `send` would refuse this URL, as far as that is known without resolving its host, or None."""
    try:
        target = Target.parse(url)
        if address := known_address(target.host):
            guard(target.host, target.port, [address])
    except Refused as refused:
        return str(refused)
    return None


@dataclass(frozen=True)
class Target:
    """Where a request goes."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        if len(url) > LONGEST_URL:
            raise Refused(f"The URL is longer than {LONGEST_URL} characters.")
        if _UNSENDABLE.search(url):
            raise Refused("The URL contains a space, a backslash or a control character.")
        try:
            parts = urlsplit(url)
            port = parts.port
            host = ascii_host(parts.hostname or "")
        except ValueError as error:
            raise Refused(f"Not a URL: {str(error).rstrip('.')}.") from error
        if parts.scheme not in PORTS:
            raise Refused("The URL must start with http:// or https://.")
        if "@" in parts.netloc:
            raise Refused("The URL must not contain a user name or password.")
        if not host:
            raise Refused("The URL has no host name.")
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
        query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~?')}" if parts.query else ""
        return cls(parts.scheme, host, port or PORTS[parts.scheme], path + query)

    @property
    def place(self) -> str:
        """The name under which a secret can be allowed for this target; for plain http it always includes the port."""
        return place(self.host, self.port, self.scheme)

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"
