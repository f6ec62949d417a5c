"""Requests and replies: malformed URLs, time and size limits, errors."""

import asyncio
import gzip
import socket
import threading
import time
import zlib
from contextlib import suppress
from types import SimpleNamespace

import pytest

from schedules.tasks.outbound import OutboundError, Refused, addresses, problem_with_url, send
from schedules.tasks.outbound.addresses import MAX_LOOKUPS, Resolver
from tests.sink import Answer, Sink
from tests.tasks.outbound.conftest import get
from tests.waiting import PATIENCE, wait_for


def test_malformed_url_is_a_problem(wire):
    for url, words in [
        ("", "must start with http"),
        ("example.com/hook", "must start with http"),
        ("ftp://example.com/", "must start with http"),
        ("file:///etc/passwd", "must start with http"),
        ("gopher://127.0.0.1:6379/_", "must start with http"),
        ("javascript:alert(1)", "must start with http"),
        ("http://", "no host name"),
        ("https:///path", "no host name"),
        ("http://:80/", "no host name"),
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
        ("http://\ufdfa.example/", "Not a URL: '\ufdfa.example' is not the name of a host."),
        (f"http://example.com/{'a' * 2048}", "longer than 2048"),
    ]:
        problem = problem_with_url(url)

        assert problem is not None
        assert words in problem
        assert not problem.endswith("..")
        with pytest.raises(Refused):
            get(url)
        assert wire == []


def test_redirects_are_not_followed(allowed):
    allowed.default = Answer.redirect("/next")

    reply = get(allowed.url("/first"))

    assert (reply.status, reply.headers["location"]) == (302, "/next")
    assert len(allowed.requests) == 1


def test_request_and_reply_are_complete(allowed):
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


def test_international_name_is_resolved_in_its_ascii_form(allowed, names, wire):
    names["xn--strae-oqa.test"] = [["127.0.0.1"]]

    assert get(allowed.url(host="straße.test")).status == 200


def test_proxies_from_the_environment_are_ignored(allowed, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    assert get(allowed.url()).status == 200


def test_slow_answer_times_out(allowed, settings):
    async def scenario(slow: Sink):
        # On an open connection: one that cannot be made in time is another error.
        await send("GET", slow.url())
        slow.default = Answer(manner="hang")
        settings.CRONTY_OUTBOUND_TIMEOUT = 0.2
        with pytest.raises(OutboundError, match=r"no answer within 0\.2 s") as caught:
            await send("GET", slow.url())
        assert caught.value.retryable

    with Sink() as slow:
        asyncio.run(scenario(slow))
        assert slow.connections == 1


def test_process_that_stood_still_for_longer_than_the_limit_still_reads_the_answer(allowed, settings):
    """It gave up on requests that had been answered meanwhile, and sent them again."""

    async def scenario(sink: Sink):
        await send("POST", sink.url())
        settings.CRONTY_OUTBOUND_TIMEOUT = 1
        sink.default = Answer(delay=1.5)
        request = asyncio.create_task(send("POST", sink.url()))
        await asyncio.sleep(0.1)
        # The whole process, in the middle of the request.
        until = time.monotonic() + 2
        wait_for(lambda: time.monotonic() > until and len(sink.requests) == 2)
        return await request

    with Sink() as sink:
        assert asyncio.run(scenario(sink)).status == 200
        assert len(sink.requests) == 2


@pytest.mark.parametrize(
    ("answer", "beginning"),
    [(Answer(manner="drip"), ""), (Answer(manner="cut", body=b"thanks"), "thanks")],
    ids=["slow", "cut off"],
)
def test_body_that_does_not_end_is_truncated_and_the_reply_counts(answer, beginning, allowed, settings):
    async def scenario(slow: Sink):
        # On an open connection: one that cannot be made in time is another error.
        await send("POST", slow.url())
        slow.default = answer
        settings.CRONTY_OUTBOUND_TIMEOUT = 1
        return await send("POST", slow.url())

    with Sink() as slow:
        reply = asyncio.run(scenario(slow))

    assert (reply.status, reply.truncated) == (200, True)
    assert reply.text.startswith(beginning)


@pytest.fixture
def slow_resolver(monkeypatch):
    """A resolver that does not answer before the test sets `answers`; it records what it was asked."""
    resolver = SimpleNamespace(asked=[], answers=threading.Event())

    def getaddrinfo(host, port, **options):
        resolver.asked.append(host)
        resolver.answers.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield resolver
    resolver.answers.set()


def test_slow_resolver_is_asked_once_and_keeps_no_thread_of_others_busy(slow_resolver, wire):
    async def scenario():
        requests = [asyncio.create_task(send("GET", "http://slow.test/")) for _ in range(100)]
        requests += [asyncio.create_task(send("GET", f"http://slow{number}.test/")) for number in range(20)]
        try:
            async with asyncio.timeout(PATIENCE):
                while len(set(slow_resolver.asked)) < 21:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(slow_resolver.asked.sort)
        finally:
            slow_resolver.answers.set()
        return await asyncio.gather(*requests, return_exceptions=True)

    outcomes = asyncio.run(scenario())

    assert {type(outcome) for outcome in outcomes} == {OutboundError}
    assert slow_resolver.asked.count("slow.test") == 1


def test_lookup_does_not_wait_for_those_that_nobody_needs_any_more(slow_resolver, wire):
    hosts = [f"slow{number}.test" for number in range(2 * MAX_LOOKUPS)]

    async def scenario():
        resolver = Resolver()
        abandoned = [asyncio.create_task(resolver.resolve(host)) for host in hosts]
        async with asyncio.timeout(PATIENCE):
            while len(slow_resolver.asked) < MAX_LOOKUPS:
                await asyncio.sleep(0.01)
            for request in abandoned:
                request.cancel()
            await asyncio.gather(*abandoned, return_exceptions=True)
            again = [asyncio.create_task(resolver.resolve(host)) for host in (hosts[0], hosts[-1])]
            await asyncio.sleep(0)
            slow_resolver.answers.set()
            outcomes = await asyncio.gather(*again, return_exceptions=True)
        resolver.close()
        return outcomes

    assert [type(outcome) for outcome in asyncio.run(scenario())] == [OutboundError, OutboundError]
    assert sorted(slow_resolver.asked) == sorted([*hosts[:MAX_LOOKUPS], hosts[-1]])


def test_addresses_of_a_name_are_looked_up_again_after_the_burst(names, monkeypatch):
    monkeypatch.setattr(addresses, "FRESH_SECONDS", 0.05)
    names["moving.test"] = [["93.184.216.34"], ["93.184.216.35"]]

    async def scenario():
        resolver = Resolver()
        first = await resolver.resolve("moving.test")
        async with asyncio.timeout(PATIENCE):
            while await resolver.resolve("moving.test") == first:
                await asyncio.sleep(0.01)
        resolver.close()

    asyncio.run(scenario())

    assert names["asked"] == ["moving.test"] * 2


def test_endless_answer_is_truncated_at_the_limit(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 1000
    with Sink(Answer(manner="endless")) as endless:
        reply = get(endless.url())

    assert (len(reply.text), reply.truncated) == (1000, True)


def test_answer_of_exactly_the_limit_is_complete(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 1000
    allowed.default = Answer(body=b"x" * 1000)

    reply = get(allowed.url())

    assert (len(reply.text), reply.truncated) == (1000, False)


def test_endless_headers_are_an_error(allowed):
    with Sink(Answer(manner="endless-headers")) as endless, pytest.raises(OutboundError):
        get(endless.url())


def test_endless_hints_before_an_answer_end_with_the_time_limit(allowed, settings):
    settings.CRONTY_OUTBOUND_TIMEOUT = 0.5
    hint = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"

    def talk(server: socket.socket) -> None:
        with suppress(OSError), server.accept()[0] as client:
            while True:
                client.sendall(hint * 100)

    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = threading.Thread(target=talk, args=[server])
        talking.start()
        with pytest.raises(OutboundError, match=r"no answer within 0\.5 s"):
            get(f"http://127.0.0.1:{server.getsockname()[1]}/")
        talking.join(PATIENCE)

    assert not talking.is_alive()


def test_gzip_bomb_is_unpacked_only_to_the_limit(allowed, settings):
    settings.CRONTY_OUTBOUND_BYTES = 2000
    allowed.default = Answer.gzip_bomb(5_000_000)

    reply = get(allowed.url())

    assert (reply.text, reply.truncated) == ("0" * 2000, True)


@pytest.mark.parametrize("charset", ["utf-8", "utf-16le", "shift_jis"])
def test_answer_that_is_cut_within_a_character_ends_before_it(charset, allowed, settings):
    body = "ああ".encode(charset)
    settings.CRONTY_OUTBOUND_BYTES = len(body) - 1
    allowed.default = Answer(body=body, headers={"Content-Type": f"text/plain; charset={charset}"})

    reply = get(allowed.url())

    assert (reply.text, reply.truncated) == ("あ", True)


@pytest.mark.parametrize(
    ("encoding", "body", "text"),
    [
        ("gzip", gzip.compress(b"hello"), "hello"),
        ("Deflate", zlib.compress(b"hello"), "hello"),
        ("x-gzip", gzip.compress(b"hello"), "hello"),
        ("gzip", b"not packed", "not packed"),
        ("br", b"as it is", "as it is"),
    ],
    ids=["gzip", "deflate", "old name of gzip", "not packed at all", "unknown"],
)
def test_compressed_answer_is_unpacked_if_supported(encoding, body, text, allowed):
    allowed.default = Answer(body=body, headers={"Content-Encoding": encoding})

    assert get(allowed.url()).text == text


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("text/plain; charset=iso-8859-1", "latin-1"),
        ('text/html; charset="Windows-1252"; x=y', "cp1252"),
        ("text/plain; charset=utf-16le", "utf-16le"),
        ("text/plain; charset=utf-8", "utf-8"),
        ("text/plain; charset=punycode", "utf-8"),
        ("text/plain; charset=iso-8859-12", "utf-8"),
        ("text/plain", "utf-8"),
    ],
)
def test_answer_is_decoded_by_its_charset(content_type, encoding, allowed):
    allowed.default = Answer(body="Grüße".encode(encoding), headers={"Content-Type": content_type})

    assert get(allowed.url()).text == "Grüße"


@pytest.mark.parametrize(
    ("method", "length"), [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("GET", None), ("DELETE", None)]
)
def test_request_that_usually_has_a_body_says_that_it_is_empty(method, length, allowed):
    asyncio.run(send(method, allowed.url()))

    assert allowed.requests[0].headers.get("content-length") == length


def test_hints_before_an_answer_are_skipped(allowed):
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3

    def talk(server: socket.socket) -> None:
        with server.accept()[0] as client:
            client.recv(65_536)
            client.sendall(hints + b"HTTP/1.0 200 OK\r\n\r\nuntil the end")

    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = threading.Thread(target=talk, args=[server])
        talking.start()
        reply = get(f"http://127.0.0.1:{server.getsockname()[1]}/")
        talking.join(PATIENCE)

    assert (reply.status, reply.text, reply.truncated) == (200, "until the end", False)


def test_answer_before_the_whole_request_was_read_counts(allowed):
    def talk(server: socket.socket) -> None:
        with server.accept()[0] as client:
            client.recv(1)
            client.sendall(
                b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )

    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = threading.Thread(target=talk, args=[server])
        talking.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        reply = asyncio.run(send("POST", url, content=b"x" * 20_000_000))
        talking.join(PATIENCE)

    assert reply.status == 413


@pytest.mark.parametrize("manner", ["reset", "garbage"])
def test_broken_answer_is_retryable(manner, allowed):
    allowed.default = Answer(manner=manner)

    with pytest.raises(OutboundError) as caught:
        get(allowed.url())

    assert caught.value.retryable


def test_refused_connection_is_retryable(allowed):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(
            OutboundError, match=r"^Can't reach 127\.0\.0\.1: connection refused\.$"
        ) as caught:
            get(f"http://127.0.0.1:{closed.getsockname()[1]}/")

    assert caught.value.retryable
    assert not isinstance(caught.value, Refused)


def test_https_to_a_port_without_tls_is_said(allowed):
    with pytest.raises(OutboundError, match="it does not speak https there"):
        get(allowed.url(scheme="https"))


@pytest.mark.parametrize("value", ["hush\r\nHost: b", "hush "])
def test_illegal_header_is_final_and_not_quoted(value, allowed):
    with pytest.raises(OutboundError, match="the request is not valid HTTP") as caught:
        get(allowed.url(), headers={"X-Key": value})

    assert not caught.value.retryable
    assert "hush" not in str(caught.value)
    assert allowed.requests == []
