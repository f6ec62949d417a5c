"""The one door to the network: what it refuses, what it bounds, what it forgets."""

import asyncio
import gzip
import socket
import ssl
import threading
import zlib
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import httpcore
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from schedules.tasks.outbound import OutboundError, Refused, connections, problem_with_url, send
from tests.sink import Answer, Sink

PRIVATE_HOSTS = [
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1",
    "0177.0.0.1", "017700000001", "0x7f.0x0.0x0.0x1", "0177.0x0.0.1", "0", "0.0.0.0", "0.1.2.3",  # noqa: S104
    "10.0.0.1", "10.255.255.255", "0x0a000001", "012.0.0.1", "10.1",
    "100.64.0.1", "100.127.255.254", "169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe",
    "172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "192.168.1.1", "3232235777", "192.168.257", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]",
    "[::ffff:0:7f00:1]", "[::127.0.0.1]", "[::10.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]", "[100::1]", "[2001::1]", "[2001:10::1]", "[2001:db8::1]", "[2002:7f00:1::]",
    "[2002:a00:1::1]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fd12:3456:789a::1]", "[fe80::1]",
    "[fe80::1%25lo]", "[fe80::1%lo]", "[fec0::1]", "[ff02::1]", "[ff0e::1]",
    "①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1",
]  # fmt: skip
PRIVATE_ADDRESSES = [
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",  # noqa: S104
    "100.64.0.1", "100.127.255.254", "169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.254",
    "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1",
    "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:7f00:1", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
    "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd12:3456:789a::1", "fe80::1",
    "fe80::1%1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
PUBLIC_ADDRESSES = [
    "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "223.255.255.254", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1",
    "::ffff:8.8.8.8", "64:ff9b::808:808",
]  # fmt: skip
PUBLIC = "93.184.216.34"


@pytest.fixture(scope="module")
def module_sink():
    with Sink() as sink:
        yield sink


@pytest.fixture
def sink(module_sink):
    """A server on loopback that counts connections: the private service nobody may reach."""
    module_sink.reset()
    return module_sink


@pytest.fixture
def allowed(settings, sink):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    return sink


@pytest.fixture
def names(monkeypatch):
    """A resolver that knows only these names; each has one answer per look-up, the last one for ever."""
    known: dict[str, list[list[str]]] = {}
    asked: list[str] = []

    async def getaddrinfo(self, host, port, **options):
        asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = known[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    known["asked"] = asked  # type: ignore[assignment]
    return known


@pytest.fixture
def wire(monkeypatch):
    """Let connections to 127.0.0.1 through and refuse all others here, so that no test leaves the machine."""
    connected: list[str] = []
    connect = httpcore.AnyIOBackend.connect_tcp

    async def connect_tcp(self, host, *args, **options):
        connected.append(host)
        if host != "127.0.0.1":
            raise httpcore.ConnectError("not in a test")
        return await connect(self, host, *args, **options)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_tcp)
    return connected


def get(url, **options):
    return asyncio.run(send("GET", url, **options))


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
def test_private_host_is_refused_directly(host, sink, wire, names):
    with pytest.raises(Refused, match="operator can allow it"):
        get(sink.url(host=host))

    assert (sink.connections, wire, names["asked"]) == (0, [], [])


@pytest.mark.parametrize("host", PRIVATE_HOSTS)
def test_private_host_is_a_problem_before_anything_is_stored(host):
    problem = problem_with_url(f"https://{host}/hook")

    assert problem is not None
    assert "not a public address" in problem


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_name_of_a_private_address_is_refused(address, sink, wire, names):
    names["evil.test"] = [[address]]

    with pytest.raises(Refused, match=r"evil\.test \("):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire) == (0, [])


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_one_private_address_among_public_ones_is_enough_to_refuse(address, sink, wire, names):
    names["evil.test"] = [[PUBLIC, address]]

    with pytest.raises(Refused):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire) == (0, [])


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_rebinding_name_is_looked_up_once_and_the_checked_address_used(address, sink, wire, names):
    names["evil.test"] = [[PUBLIC], [address]]

    with pytest.raises(OutboundError, match="not in a test"):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire, names["asked"]) == (0, [PUBLIC], ["evil.test"])


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "ip6-localhost"])
def test_names_of_this_machine_are_refused(name, sink, wire, names):
    names[name.lower()] = [["127.0.0.1"]]

    with pytest.raises(Refused):
        get(sink.url(host=name))

    assert (sink.connections, wire) == (0, [])


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_public_address_is_no_problem(address):
    host = f"[{address}]" if ":" in address else address

    assert problem_with_url(f"https://{host}/hook") is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must begin with http"),
        ("example.com/hook", "must begin with http"),
        ("ftp://example.com/", "must begin with http"),
        ("file:///etc/passwd", "must begin with http"),
        ("gopher://127.0.0.1:6379/_", "must begin with http"),
        ("javascript:alert(1)", "must begin with http"),
        ("http://", "names no host"),
        ("https:///path", "names no host"),
        ("http://:80/", "names no host"),
        ("http://ada:secret@example.com/", "user name or password"),
        ("http://example.com@127.0.0.1/", "user name or password"),
        ("http://@example.com/", "user name or password"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http://example.com/a b", "space"),
        ("http://example.com/\r\nHost: x", "control character"),
        ("http://example.com/\x00", "control character"),
        ("http://example.com:99999/", "Not a URL"),
        ("http://example.com:http/", "Not a URL"),
        ("http://[::1/", "Not a URL"),
        ("http://[nonsense]/", "Not a URL"),
        ("http://ex\u2100mple.com/", "Not a URL"),
        ("http://\u0301.example/", "Not a URL"),
        (f"http://example.com/{'a' * 2048}", "longer than 2048"),
    ],
)
def test_malformed_url_is_a_problem(url, words, wire):
    problem = problem_with_url(url)

    assert problem is not None
    assert words in problem
    with pytest.raises(Refused):
        get(url)
    assert wire == []


@pytest.mark.parametrize(
    "entry",
    ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}", "service.test", "SERVICE.test", "service.test:{port}"],
)
def test_operator_allows_a_private_service(entry, sink, wire, names, settings):
    names["service.test"] = [["127.0.0.1"]]
    settings.CRONTY_OUTBOUND_ALLOW = ["unrelated.test", entry.format(port=sink.port)]

    reply = get(sink.url(host="service.test"))

    assert reply.status == 200
    assert sink.requests[0].headers["host"] == f"service.test:{sink.port}"
    assert problem_with_url(sink.url(host="service.test")) is None


@pytest.mark.parametrize(
    "entry", ["127.0.0.2", "10.0.0.0/8", "127.0.0.1:1", "service.test:1", "other.test", "test", "::1", ""]
)
def test_entry_for_something_else_allows_nothing(entry, sink, wire, names, settings):
    names["service.test"] = [["127.0.0.1"]]
    settings.CRONTY_OUTBOUND_ALLOW = [entry]

    with pytest.raises(Refused):
        get(sink.url(host="service.test"))

    assert (sink.connections, wire) == (0, [])


def test_allowed_ipv6_entry_with_a_port(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["[fd00::1]:8080"]

    assert problem_with_url("http://[fd00::1]:8080/") is None
    assert problem_with_url("http://[fd00::1]/") is not None


def test_allowed_address_is_allowed_in_its_mapped_spelling(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["10.0.0.0/8"]

    assert problem_with_url("http://[::ffff:10.1.2.3]/") is None


def test_trust_reaches_the_operators_host_and_leaves_no_connection_for_others(sink):
    async def scenario():
        await send("GET", sink.url(), trusted=True)
        with pytest.raises(Refused):
            await send("GET", sink.url())
        await send("GET", sink.url(), trusted=True)

    asyncio.run(scenario())

    assert (sink.connections, len(sink.requests)) == (1, 2)


def test_redirects_are_not_followed(allowed):
    allowed.default = Answer.redirect("/next")

    reply = get(allowed.url("/first"))

    assert (reply.status, reply.headers["location"]) == (302, "/next")
    assert len(allowed.requests) == 1


def test_request_and_reply_are_whole(allowed):
    allowed.default = Answer(status=201, body="ünï ☃".encode(), headers={"X-Answer": "yes"})

    reply = asyncio.run(
        send("POST", allowed.url("/päth;a=1?q=ä&r=%20"), content=b"hello", headers={"User-Agent": "Test"})
    )

    received = allowed.requests[0]
    assert (reply.status, reply.text, reply.truncated) == (201, "ünï ☃", False)
    assert reply.headers["x-answer"] == "yes"
    assert (received.method, received.path) == ("POST", "/p%C3%A4th;a=1?q=%C3%A4&r=%20")
    assert received.body == b"hello"
    assert received.headers["user-agent"] == "Test"
    assert received.headers["host"] == f"127.0.0.1:{allowed.port}"


def test_host_header_cannot_be_overwritten(allowed):
    get(allowed.url(), headers={"HOST": "internal", "Accept-Encoding": "gzip"})

    assert allowed.requests[0].headers["host"] == f"127.0.0.1:{allowed.port}"
    assert allowed.requests[0].headers["accept-encoding"] == "identity"


def test_international_name_is_looked_up_in_its_ascii_form(allowed, names, wire):
    names["xn--strae-oqa.test"] = [["127.0.0.1"]]

    assert get(allowed.url(host="straße.test")).status == 200


def test_proxies_of_the_environment_are_ignored(allowed, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    assert get(allowed.url()).status == 200


@pytest.mark.parametrize("manner", ["hang", "drip"])
def test_slow_answer_ends_at_the_limit(manner, allowed, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 0.2
    with (
        Sink(Answer(manner=manner)) as slow,
        pytest.raises(OutboundError, match=r"no answer within 0\.2 s") as caught,
    ):
        get(slow.url())

    assert caught.value.retryable


def test_slow_resolver_ends_at_the_limit(settings, monkeypatch, wire):
    async def getaddrinfo(self, host, port, **options):
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    settings.CRONTY_OUTBOUND_TIMEOUT = 0.1

    with pytest.raises(OutboundError, match="no answer within"):
        get("http://slow.test/")


def test_endless_answer_is_cut_at_the_limit(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 1000
    with Sink(Answer(manner="endless")) as endless:
        reply = get(endless.url())

    assert (len(reply.text), reply.truncated) == (1000, True)


def test_answer_of_exactly_the_limit_is_whole(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 1000
    allowed.default = Answer(body=b"x" * 1000)

    reply = get(allowed.url())

    assert (len(reply.text), reply.truncated) == (1000, False)


def test_endless_headers_are_an_error(allowed):
    with Sink(Answer(manner="endless-headers")) as endless, pytest.raises(OutboundError):
        get(endless.url())


def test_gzip_bomb_unpacks_to_the_limit(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 2000
    allowed.default = Answer.gzip_bomb(5_000_000)

    reply = get(allowed.url())

    assert (reply.text, reply.truncated) == ("0" * 2000, True)


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("gzip", gzip.compress(b"hello"), "hello"),
        ("Deflate", zlib.compress(b"hello"), "hello"),
        ("gzip", b"not packed", "not packed"),
        ("br", b"as it is", "as it is"),
    ],
    ids=["gzip", "deflate", "not packed at all", "unknown"],
)
def test_packed_answer_is_read_if_it_can_be(encoding, body, text, allowed):
    allowed.default = Answer(body=body, headers={"Content-Encoding": encoding})

    assert get(allowed.url()).text == text


@pytest.mark.parametrize("manner", ["reset", "garbage"])
def test_broken_answer_is_retryable(manner, allowed):
    allowed.default = Answer(manner=manner)

    with pytest.raises(OutboundError) as caught:
        get(allowed.url())

    assert caught.value.retryable


def test_refused_connection_is_retryable(allowed):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(OutboundError) as caught:
            get(f"http://127.0.0.1:{closed.getsockname()[1]}/")

    assert caught.value.retryable
    assert not isinstance(caught.value, Refused)


@pytest.mark.parametrize("host", ["unknown.test", "a..b", f"{'a' * 64}.test"])
def test_name_without_address_is_retryable(host, names):
    with pytest.raises(OutboundError, match="cannot be resolved") as caught:
        get(f"http://{host}/")

    assert caught.value.retryable


def test_illegal_header_is_final(allowed):
    with pytest.raises(OutboundError) as caught:
        get(allowed.url(), headers={"X-Key": "a\r\nHost: b"})

    assert not caught.value.retryable
    assert allowed.requests == []


def test_next_address_is_tried_when_one_is_dead(allowed, names, wire):
    names["two.test"] = [[PUBLIC, "127.0.0.1"]]

    assert get(allowed.url(host="two.test")).status == 200
    assert wire == [PUBLIC, "127.0.0.1"]


def test_connection_is_reused_within_a_loop_and_closed_with_it(allowed):
    async def scenario():
        for _ in range(5):
            await send("GET", allowed.url())

    asyncio.run(scenario())

    assert (allowed.connections, len(allowed.requests)) == (1, 5)
    assert connections._channels == {}
    assert open_to(allowed.port) == []


def test_expired_connection_is_not_reused(allowed, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)

    async def scenario():
        for _ in range(3):
            await send("GET", allowed.url())

    asyncio.run(scenario())

    assert allowed.connections == 3


def test_connection_the_server_closed_is_not_reused(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]

    async def scenario(first: Sink):
        await send("GET", first.url())
        first.__exit__(None, None, None)
        with pytest.raises(OutboundError):
            await send("GET", first.url())

    asyncio.run(scenario(Sink().__enter__()))


def test_loops_in_threads_do_not_share(allowed):
    threads = [threading.Thread(target=get, args=(allowed.url(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (allowed.connections, len(allowed.requests)) == (4, 4)
    assert connections._channels == {}


def test_many_at_once_wait_for_a_place_without_losing_time(allowed, settings, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    settings.CRONTY_OUTBOUND_TIMEOUT = 1
    allowed.default = Answer(delay=0.1)

    async def scenario():
        return await asyncio.gather(*(send("GET", allowed.url()) for _ in range(48)))

    replies = asyncio.run(scenario())

    assert {reply.status for reply in replies} == {200}
    assert allowed.connections <= 4


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cancelled_request_leaves_no_connection(scheme, allowed):
    with Sink(Answer(manner="hang")) as slow:

        async def scenario():
            sending = [asyncio.create_task(send("GET", slow.url(scheme=scheme))) for _ in range(5)]
            while slow.connections < 5:
                await asyncio.sleep(0.005)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
            await asyncio.sleep(0)
            return open_to(slow.port)

        assert asyncio.run(scenario()) == []


def open_to(port):
    """Return this process's client connections to the port."""
    return [
        connection
        for connection in psutil.Process().net_connections("tcp")
        if connection.raddr and connection.raddr.port == port
    ]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate, with its key, for the name service.test."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "service.test")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("service.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "service.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def tls_sink(certificate, settings, names):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    names["service.test"] = names["other.test"] = [["127.0.0.1"]]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    seen: list[str] = []
    context.sni_callback = lambda connection, name, context: seen.append(name)
    with Sink(tls=context) as sink:
        sink.seen = seen  # type: ignore[attr-defined]
        yield sink


def test_tls_keeps_the_name_although_the_address_is_used(tls_sink, certificate, monkeypatch):
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))

    reply = get(tls_sink.url(host="service.test", scheme="https"))

    assert reply.status == 200
    assert tls_sink.seen == ["service.test"]
    assert tls_sink.requests[0].headers["host"] == f"service.test:{tls_sink.port}"


def test_certificate_of_another_name_is_final(tls_sink, certificate, monkeypatch):
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))

    with pytest.raises(OutboundError, match="certificate is not valid") as caught:
        get(tls_sink.url(host="other.test", scheme="https"))

    assert not caught.value.retryable
    assert tls_sink.requests == []


def test_certificate_nobody_vouches_for_is_final(tls_sink):
    with pytest.raises(OutboundError, match="certificate is not valid"):
        get(tls_sink.url(host="service.test", scheme="https"))


def test_private_address_far_down_a_long_answer_is_found(sink, wire, names):
    names["evil.test"] = [[f"1.1.1.{number}" for number in range(1, 40)] + ["127.0.0.1"]]

    with pytest.raises(Refused):
        get(sink.url(host="evil.test"))

    assert (sink.connections, wire) == (0, [])


def test_only_some_addresses_of_a_long_answer_are_tried(sink, wire, names):
    names["many.test"] = [[f"1.1.1.{number}" for number in range(1, 40)]]

    with pytest.raises(OutboundError, match="not in a test"):
        get(sink.url(host="many.test"))

    assert wire == [f"1.1.1.{number}" for number in range(1, 9)]


def test_tables_are_as_long_as_promised():
    assert len(set(PRIVATE_HOSTS)) >= 60
    assert not any(ip_address(address).is_global for address in PRIVATE_ADDRESSES[:6])
