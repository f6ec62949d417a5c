"""Read forwarded headers: the client's address and scheme, but only from proxies that the operator trusts."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from schedules.services.people.hourly_limits import Address, address_of

FORWARDED = (
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-real-ip",
)


class TrustProxies:
    """An ASGI app that applies the forwarded headers of these proxies, and removes those of everybody else."""

    def __init__(self, app: ASGIApp, proxies: Iterable[str]) -> None:
        self.app = app
        self._networks = [ip_network(proxy) for proxy in proxies]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            scope = self._with_client(scope)
        await self.app(scope, receive, send)

    def _with_client(self, scope: Scope) -> Scope:
        peer = address_of(scope["client"][0]) if scope.get("client") else None
        if peer is None or not self._is_trusted(peer):
            return {
                **scope,
                "headers": [(name, value) for name, value in scope["headers"] if name not in FORWARDED],
            }
        changes: dict[str, Any] = {"client": (str(self._client(scope, peer)), 0)}
        # The nearest proxy appends the last value.
        protocols = list(_values(scope, b"x-forwarded-proto"))
        if scope["type"] == "http" and protocols and protocols[-1] in {"http", "https"}:
            changes["scheme"] = protocols[-1]
        return {**scope, **changes}

    def _client(self, scope: Scope, peer: Address) -> Address:
        """Return the last address that is not a trusted proxy; a malformed one ends the search."""
        client = peer
        for value in reversed(list(_values(scope, b"x-forwarded-for"))):
            address = address_of(value)
            if address is None:
                break
            client = address
            if not self._is_trusted(address):
                break
        return client

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _values(scope: Scope, header: bytes) -> Iterator[str]:
    for name, value in scope["headers"]:
        if name == header:
            yield from (part.strip() for part in value.decode("latin1").split(","))
