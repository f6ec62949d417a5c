"""Connections: which address is used, reuse, cancellation and TLS."""

import asyncio
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from schedules.tasks.outbound import OutboundError, Refused, Target, connections, prepare, send
from tests.sink import Answer, Sink
from tests.tasks.outbound.conftest import PUBLIC, get
from tests.waiting import PATIENCE, wait_for


def test_first_request_after_a_preparation_loads_no_certificates(allowed, monkeypatch):
    connections._ssl_context.cache_clear()
    loads = []
    load = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: loads.append(1) or load())

    prepare()
    assert loads == [1]
    assert get(allowed.url()).status == 200
    assert loads == [1]


def test_connection_of_a_trusted_request_is_not_reused_for_others(sink):
    async def scenario():
        await send("GET", sink.url(), trusted=True)
        with pytest.raises(Refused):
            await send("GET", sink.url())
        await send("GET", sink.url(), trusted=True)

    asyncio.run(scenario())

    assert (sink.connections, len(sink.requests)) == (1, 2)


def test_next_address_is_tried_if_one_is_unreachable(allowed, names, wire):
    names["two.test"] = [[PUBLIC, "127.0.0.1"]]

    assert get(allowed.url(host="two.test")).status == 200
    assert wire == [PUBLIC, "127.0.0.1"]


def test_connection_is_reused_within_a_loop_and_closed_with_it(allowed):
    async def scenario():
        for _ in range(5):
            await send("GET", allowed.url())

    asyncio.run(scenario())

    assert (allowed.connections, len(allowed.requests)) == (1, 5)
    assert connections._pools == {}
    assert open_to(allowed.port) == []


def test_burst_to_a_quick_host_shares_few_connections_and_one_lookup(allowed, names, monkeypatch):
    monkeypatch.setattr(connections, "REUSE_WAIT_SECONDS", PATIENCE)
    names["service.test"] = [["127.0.0.1"]]

    async def scenario():
        return await asyncio.gather(*(send("GET", allowed.url(host="service.test")) for _ in range(100)))

    replies = asyncio.run(scenario())

    assert [reply.status for reply in replies] == [200] * 100
    assert allowed.connections == connections.OPEN_AT_ONCE
    assert names["asked"] == ["service.test"]


def test_slow_host_gets_as_many_connections_as_requests(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    with Sink(Answer(manner="hang")) as slow:

        async def scenario():
            requests = [asyncio.create_task(send("GET", slow.url())) for _ in range(40)]
            async with asyncio.timeout(PATIENCE):
                while len(slow.requests) < 40:
                    await asyncio.sleep(0.005)
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)

        asyncio.run(scenario())

        assert slow.connections == 40


def test_request_that_is_cancelled_passes_its_connection_on(allowed, monkeypatch):
    monkeypatch.setattr(connections, "REUSE_WAIT_SECONDS", PATIENCE)
    monkeypatch.setattr(connections, "OPEN_AT_ONCE", 1)

    async def scenario():
        pool = await connections.pool_of_this_loop()
        host = pool.host(Target.parse(allowed.url()), trusted=True)
        first = await host.take()
        cancelled, next_one = (asyncio.create_task(host.take()) for _ in range(2))
        await run_other_tasks()
        host.give_back(first)
        cancelled.cancel()
        assert await next_one is first
        assert cancelled.cancelled()
        first.close()
        host.give_back(first)

    asyncio.run(scenario())

    # The server may accept a connection after the client has closed it.
    wait_for(lambda: allowed.connections)
    assert allowed.connections == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_connection_on_which_more_than_an_answer_arrived_is_not_reused(
    scheme, settings, certificate, monkeypatch, names
):
    """What follows an answer would be taken for that of the next request."""
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]
    names["service.test"] = [["127.0.0.1"]]
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n%s"

    def talk(server: socket.socket) -> None:
        for body in (b"good" + answer % b"evil", b"good"):
            client = server.accept()[0]
            with context.wrap_socket(client, server_side=True) if scheme == "https" else client as wrapped:
                wrapped.recv(65_536)
                wrapped.sendall(answer % body)
                with suppress(OSError):
                    wrapped.recv(1)

    async def scenario(port: int):
        return [(await send("GET", f"{scheme}://service.test:{port}/")).text for _ in range(2)]

    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = threading.Thread(target=talk, args=[server])
        talking.start()
        assert asyncio.run(scenario(server.getsockname()[1])) == ["good", "good"]
        talking.join(PATIENCE)


def test_expired_connection_is_not_reused(allowed, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", -1.0)

    async def scenario():
        for _ in range(3):
            await send("GET", allowed.url())

    asyncio.run(scenario())

    assert allowed.connections == 3


def test_idle_connection_is_closed_and_its_host_forgotten(allowed, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)

    async def scenario():
        await send("GET", allowed.url())
        pool = await connections.pool_of_this_loop()
        async with asyncio.timeout(PATIENCE):
            while pool.hosts or open_to(allowed.port):
                await asyncio.sleep(0.01)
        return pool.hosts, open_to(allowed.port), allowed.connections

    assert asyncio.run(scenario()) == ({}, [], 1)


def test_connection_closed_by_the_server_is_not_reused(settings):
    settings.CRONTY_OUTBOUND_ALLOW = ["127.0.0.1"]

    async def scenario(first: Sink):
        await send("GET", first.url())
        first.__exit__(None, None, None)
        with pytest.raises(OutboundError):
            await send("GET", first.url())

    asyncio.run(scenario(Sink().__enter__()))


def test_event_loops_in_threads_do_not_share_connections(allowed):
    threads = [threading.Thread(target=get, args=(allowed.url(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (allowed.connections, len(allowed.requests)) == (4, 4)
    assert connections._pools == {}


def test_number_of_connections_is_limited(allowed, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    allowed.default = Answer(delay=0.01)

    async def scenario():
        return await asyncio.gather(*(send("GET", allowed.url()) for _ in range(24)))

    replies = asyncio.run(scenario())

    assert [reply.status for reply in replies] == [200] * 24
    assert allowed.connections <= 4


def test_time_waiting_for_a_connection_does_not_count_towards_the_timeout(allowed, settings, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)

    async def scenario():
        loop = asyncio.get_running_loop()
        pool = await connections.pool_of_this_loop()
        async with pool.capacity:
            sending = asyncio.create_task(send("GET", allowed.url()))
            await run_other_tasks()
            later = loop.time() + 2 * settings.CRONTY_OUTBOUND_TIMEOUT
            monkeypatch.setattr(loop, "time", lambda: later)
            await run_other_tasks()
            assert not sending.done()
            assert not allowed.requests
        return await sending

    assert asyncio.run(scenario()).status == 200


async def run_other_tasks() -> None:
    """Let the other tasks of the loop run until they wait for something."""
    for _ in range(20):
        await asyncio.sleep(0)


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


def test_tls_uses_the_host_name_although_it_connects_to_the_address(tls_sink, certificate, monkeypatch):
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))

    tls_sink.default = Answer(body=b"hello")

    reply = get(tls_sink.url(host="service.test", scheme="https"))

    assert (reply.status, reply.text) == (200, "hello")
    assert tls_sink.seen == ["service.test"]
    assert tls_sink.requests[0].headers["host"] == f"service.test:{tls_sink.port}"


def test_certificate_for_another_name_is_not_retried(tls_sink, certificate, monkeypatch):
    monkeypatch.setattr(connections, "_ssl_context", lambda: ssl.create_default_context(cafile=certificate))

    with pytest.raises(OutboundError, match="certificate is not valid") as caught:
        get(tls_sink.url(host="other.test", scheme="https"))

    assert not caught.value.retryable
    assert tls_sink.requests == []


def test_untrusted_certificate_is_not_retried(tls_sink):
    with pytest.raises(OutboundError, match="certificate is not valid"):
        get(tls_sink.url(host="service.test", scheme="https"))


def test_number_of_addresses_tried_is_limited(sink, wire, names):
    names["many.test"] = [[f"1.1.1.{number}" for number in range(1, 40)]]

    with pytest.raises(OutboundError, match="not in a test"):
        get(sink.url(host="many.test"))

    assert wire == [f"1.1.1.{number}" for number in range(1, 9)]
