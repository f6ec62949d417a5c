"""Guards around a small ASGI app that reads its body, as Django does, and then answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import LazySettings

from cronty_site import urls  # noqa: F401  (as they are without OAuth)
from cronty_site.serving import guards
from cronty_site.serving.guards import Guards
from schedules.api.common import ProblemOut
from schedules.services.long_answers import LEAVE_PLACE
from tests.waiting import PATIENCE

Messages = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "LINGER_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def with_oauth(settings: LazySettings) -> None:
    settings.CRONTY_OAUTH = True


class Reader:
    """An ASGI app that reads the whole body; it notes what it got, and how many requests it handled at once."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.bodies: list[bytes] = []
        self.is_disconnected = False
        self.now = self.most = 0
        self._gate = gate

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.is_disconnected = True
                raise RuntimeError("the client has gone")
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        self.now += 1
        self.most = max(self.most, self.now)
        if self._gate:
            await self._gate.wait()
        self.now -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


async def ask(
    app: Any,
    path: str = "/jobs/new/",
    *parts: bytes,
    method: str = "POST",
    length: int | None = None,
    client: str = "192.0.2.1",
    is_endless: bool = False,
    left: list[int] | None = None,
    **scope: Any,
) -> Messages:
    """Send a request whose body arrives in these parts; return the messages of the response."""
    sent: Messages = []
    size = sum(map(len, parts)) if length is None else length
    headers = (
        [(b"content-length", str(size).encode())] if length != -1 else [(b"transfer-encoding", b"chunked")]
    )
    remaining = list(parts) or [b""]

    async def receive() -> dict[str, Any]:
        if not remaining:
            await asyncio.Event().wait()
        part = remaining.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(remaining) or is_endless}

    async def send(message: Any) -> None:
        sent.append(message)

    base = {"type": "http", "scheme": "http", "path": path, "method": method, "client": (client, 1)}
    await app({**base, "headers": headers, **scope}, receive, send)
    if left is not None:
        left.append(len(remaining))
    return sent


def headers_of(messages: Messages) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in messages[0]["headers"]}


LARGEST = pytest.mark.parametrize(
    ("path", "method", "largest"),
    [
        ("/healthz", "POST", 1024),
        ("/readyz", "POST", 1024),
        ("/metrics", "PUT", 1024),
        ("/", "GET", 1024),
        ("/mcp", "GET", 1024),
        ("/login/", "POST", 16_384),
        ("/oauth/token/", "POST", 16_384),
        ("/admin/login/", "POST", 16_384),
        ("/mcp", "POST", 262_144),
        ("/api/v1/jobs", "POST", 262_144),
        ("/jobs/new/", "POST", 1_000_000),
        ("/ping/5e0b6f0a-0000-4000-8000-000000000000", "POST", 1_000_000),
        ("/admin/schedules/job/add/", "POST", 1_000_000),
        ("/no-such-page", "POST", 1_000_000),
    ],
)


@LARGEST
def test_declared_body_is_refused_before_anything_is_read(path: str, method: str, largest: int):
    reader = Reader()

    answer = async_to_sync(ask)(Guards(reader), path, b"x", method=method, length=largest + 1)

    assert answer[0]["status"] == 413
    assert headers_of(answer)["connection"] == "close"
    assert str(largest).encode() in answer[1]["body"]
    assert not reader.bodies
    if path == "/mcp":
        error = json.loads(answer[1]["body"])
        assert (error["jsonrpc"], error["id"]) == ("2.0", None)
        assert str(largest) in error["error"]["message"]
    if path.startswith("/api/"):
        problem = ProblemOut.model_validate_json(answer[1]["body"])
        assert (problem.status, problem.code, problem.title) == (413, "too_large", "Request Entity Too Large")
        assert headers_of(answer)["content-type"] == "application/problem+json"
    assert not reader.is_disconnected


@LARGEST
def test_streamed_body_is_refused_when_it_passes_the_limit(path: str, method: str, largest: int):
    reader = Reader()

    half = b"x" * (largest // 2 + 1)
    answer = async_to_sync(ask)(Guards(reader), path, half, half, method=method, length=-1, is_endless=True)

    assert [message["type"] for message in answer] == ["http.response.start", *["http.response.body"] * 2]
    assert answer[0]["status"] == 413
    assert headers_of(answer)["connection"] == "close"
    assert reader.is_disconnected


@LARGEST
@pytest.mark.parametrize("length", [None, -1], ids=["declared", "streamed"])
def test_largest_body_is_passed_on(path: str, method: str, largest: int, length: int | None):
    reader = Reader()

    answer = async_to_sync(ask)(Guards(reader), path, b"x" * largest, method=method, length=length)

    assert answer[0]["status"] == 200
    assert reader.bodies == [b"x" * largest]


def test_refused_body_is_read_on_for_a_while(monkeypatch: pytest.MonkeyPatch):
    """A proxy that is still sending would lose the answer if the connection were closed at once."""
    monkeypatch.setattr(guards, "LINGER_SECONDS", 60)
    monkeypatch.setattr(guards, "LINGER_BYTES", 2_500_000)
    parts = [b"x" * 1_000_000] * 5
    left: list[int] = []

    answer = async_to_sync(ask)(Guards(Reader()), "/jobs/new/", *parts, left=left)

    assert answer[0]["status"] == 413
    assert left == [2]


def test_response_before_the_end_of_the_body_closes_the_connection():
    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 405, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with_body = async_to_sync(ask)(Guards(hasty), "/jobs/new/", b"x")
    without = async_to_sync(ask)(Guards(hasty), "/jobs/new/", b"")

    assert headers_of(with_body) == {"connection": "close"}
    assert headers_of(without) == {}


@pytest.mark.parametrize(("limit", "path"), [("BETWEEN_BYTES", "/jobs/new/"), ("WHOLE_BODY", "/api/v1/jobs")])
def test_body_that_stops_arriving_is_refused(monkeypatch: pytest.MonkeyPatch, limit: str, path: str):
    monkeypatch.setattr(guards, limit, 0.05)
    reader = Reader()

    answer = async_to_sync(ask)(Guards(reader), path, b"x", length=10, is_endless=True)

    assert answer[0]["status"] == 408
    assert headers_of(answer)["connection"] == "close"
    assert reader.is_disconnected


def test_long_response_has_no_time_limit(monkeypatch: pytest.MonkeyPatch):
    """A subscription stays open after its request has been read."""
    monkeypatch.setattr(guards, "BETWEEN_BYTES", 0.01)
    monkeypatch.setattr(guards, "WHOLE_BODY", 0.01)

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.1)
        await send({"type": "http.response.body", "body": b"still here"})

    answer = async_to_sync(ask)(Guards(stream), "/mcp", b"{}")

    assert answer[-1]["body"] == b"still here"


def together(calls: Callable[[Any], list[Awaitable[Messages]]]) -> tuple[list[int], Reader]:
    """Start requests that all wait, then let them go on; return their statuses, in order, and the app."""

    async def run() -> tuple[list[int], Reader]:
        gate = asyncio.Event()
        reader = Reader(gate)
        tasks = [asyncio.ensure_future(call) for call in calls(Guards(reader))]
        async for _ in turns():
            pass
        gate.set()
        return [answer[0]["status"] for answer in await asyncio.gather(*tasks)], reader

    return async_to_sync(run)()


async def turns() -> AsyncIterator[None]:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)
        yield


def test_few_logins_check_a_password_at_once_and_few_per_address_wait():
    statuses, reader = together(
        lambda app: [
            *[ask(app, "/login/", b"x", client="192.0.2.1") for _ in range(40)],
            ask(app, "/login/", b"x", client="192.0.2.2"),
            ask(app, "/login/", b"", method="GET"),
        ]
    )

    assert statuses == [200] * guards.WAITING_PER_ADDRESS + [429] * (40 - guards.WAITING_PER_ADDRESS) + [
        200,
        200,
    ]
    # The page of the form is no login.
    assert reader.most == guards.LOGINS_AT_ONCE + 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/oauth/token/"),
        ("POST", "/oauth/revoke/"),
        ("POST", "/oauth/register/"),
        ("PUT", "/oauth/register/some-client/"),
        ("GET", "/oauth/authorize/"),
        ("POST", "/oauth/authorize/"),
    ],
)
def test_few_requests_of_an_address_reach_the_authorization_server_and_logins_do_not_wait_for_them(
    method: str, path: str
):
    statuses, reader = together(
        lambda app: [
            *[ask(app, path, b"x", method=method, client=f"2001:db8::{number}") for number in range(40)],
            ask(app, path, b"x", method=method, client="192.0.2.2"),
            ask(app, "/login/", b"x", client="192.0.2.2"),
        ]
    )

    assert statuses == [200] * guards.WAITING_PER_ADDRESS + [429] * (40 - guards.WAITING_PER_ADDRESS) + [
        200,
        200,
    ]
    assert reader.most == guards.OAUTH_AT_ONCE + 1


def test_health_is_answered_while_every_request_is_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "max_requests", lambda: 3)
    statuses, _ = together(
        lambda app: [
            *[ask(app, "/mcp", b"{}") for _ in range(5)],
            ask(app, "/", b"", method="GET"),
            ask(app, "/healthz", b"", method="GET"),
            ask(app, "/readyz", b"", method="GET"),
        ]
    )

    assert statuses == [200, 200, 200, 503, 503, 503, 200, 200]


def test_incomplete_requests_take_no_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "max_requests", lambda: 1)
    monkeypatch.setattr(guards, "BETWEEN_BYTES", 0.05)
    statuses, _ = together(
        lambda app: [
            *[ask(app, "/", b"x", length=10, is_endless=True) for _ in range(20)],
            ask(app, "/", b"x"),
        ]
    )

    assert statuses == [408] * 20 + [200]


def test_pages_are_handled_a_few_at_a_time():
    statuses, reader = together(lambda app: [ask(app, "/", b"", method="GET") for _ in range(30)])

    assert statuses == [200] * 30
    assert reader.most == guards.AT_ONCE[guards.RequestKind.PAGE]


@pytest.mark.parametrize("path", ["/trigger/key", "/api/v1/events", "/oauth/token/"])
def test_answers_that_wait_keep_nobody_out(path: str):
    async def scenario() -> list[int]:
        is_over = asyncio.Event()
        reader = Reader()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope.get("is_long"):
                await scope[LEAVE_PLACE]()
                await is_over.wait()
            await reader(scope, receive, send)

        guarded = Guards(app)
        long = [asyncio.ensure_future(ask(guarded, path, b"x", is_long=True)) for _ in range(4)]
        others = [asyncio.ensure_future(ask(guarded, path, b"x", client=f"192.0.2.{n}")) for n in range(20)]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*others)
        assert not any(each.done() for each in long)
        is_over.set()
        return [answer[0]["status"] for answer in await asyncio.gather(*long, *others)]

    assert async_to_sync(scenario)() == [200] * 24


@pytest.mark.parametrize(
    ("scheme", "header", "status"),
    [("http", None, 403), ("https", None, 200), ("http", "https", 200), ("http", "http", 403)],
)
def test_mcp_refuses_plain_http_on_a_site_with_https(
    settings: LazySettings, scheme: str, header: str | None, status: int
):
    settings.CRONTY_URL = "https://cronty.example"
    settings.SECURE_SSL_REDIRECT = True
    headers = []
    if header:
        # A project that embeds the app may read its proxy's header itself.
        settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
        headers = [(b"x-forwarded-proto", header.encode())]

    answer = async_to_sync(ask)(Guards(Reader()), "/mcp", b"{}", scheme=scheme, headers=headers)

    assert answer[0]["status"] == status
    assert (b"https://cronty.example/mcp" in answer[1]["body"]) == (status == 403)
