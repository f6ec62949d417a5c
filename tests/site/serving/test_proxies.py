from typing import Any

from asgiref.sync import async_to_sync

from cronty_site.serving.proxies import TrustProxies

PROXY, CLIENT = "10.0.0.2", "203.0.113.9"


def seen(peer: str, *headers: tuple[str, str], proxies: tuple[str, ...] = ("10.0.0.0/24",)) -> dict[str, Any]:
    """Send a request from a peer with these headers; return the scope that the app gets."""
    scopes: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)

    scope = {
        "type": "http",
        "scheme": "http",
        "client": (peer, 4711),
        "headers": [(name.lower().encode(), value.encode("latin1")) for name, value in headers],
    }
    async_to_sync(TrustProxies(app, proxies))(scope, None, None)
    return scopes[0]


def test_headers_of_an_untrusted_peer_are_removed():
    forged = [(name, CLIENT) for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Forwarded-Host")]
    for peer in ["127.0.0.1", PROXY, CLIENT, "::1", "not-an-ip"]:
        for proxies in [(), ("192.0.2.0/24",)]:
            scope = seen(peer, *forged, ("X-Forwarded-Proto", "https"), ("Accept", "*/*"), proxies=proxies)

            assert scope["client"] == (peer, 4711)
            assert scope["scheme"] == "http"
            assert scope["headers"] == [(b"accept", b"*/*")]


def test_client_is_the_last_address_before_the_trusted_proxies():
    for forwarded, client in [
        (CLIENT, CLIENT),
        (f"198.51.100.1, {CLIENT}", CLIENT),
        (f"{CLIENT}, 10.0.0.7", CLIENT),
        (f"not-an-ip, {CLIENT}", CLIENT),
        (f"{CLIENT}, not-an-ip", PROXY),
        ("not-an-ip", PROXY),
        ("", PROXY),
        (f"{CLIENT}:4711", CLIENT),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        (f"::ffff:{CLIENT}", CLIENT),
        ("10.0.0.8, 10.0.0.9", "10.0.0.8"),
        ("1" * 10_000, PROXY),
        ("203.0.113.9\xff", PROXY),
    ]:
        assert seen(PROXY, ("X-Forwarded-For", forwarded))["client"] == (client, 0)
        assert seen(f"::ffff:{PROXY}", ("X-Forwarded-For", forwarded))["client"] == (client, 0)


def test_later_header_is_the_nearer_proxys():
    scope = seen(PROXY, ("X-Forwarded-For", "198.51.100.1"), ("X-Forwarded-For", CLIENT))

    assert scope["client"] == (CLIENT, 0)


def test_scheme_comes_from_the_trusted_proxy():
    for said, scheme in [
        ("https", "https"),
        ("http", "http"),
        ("javascript", "http"),
        ("http, https", "https"),
        ("https, http", "http"),
    ]:
        assert seen(PROXY, ("X-Forwarded-Proto", said))["scheme"] == scheme
