"""A real server process with 1,024 file handles: silent and slow clients, large bodies, guesses and forged headers."""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any

import httpx2
import pytest

from tests.clusters import PROJECT
from tests.mcp.processes import Site, free_port, prepared, wait_for_port
from tests.waiting import PATIENCE, wait_for

SERVE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import django
django.setup()
from django.conf import settings
# The pages need no collected files then.
settings.STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
from cronty_site.serving import connections, guards
connections.HEADERS = guards.BETWEEN_BYTES = float(sys.argv[2])
guards.LINGER_SECONDS = 0.2
from cronty_site.asgi import application
from cronty_site.serving.server import serve
import os
print(os.getpid(), flush=True)
serve(application, host="127.0.0.1", port=int(sys.argv[1]))
"""
HANDLES = 1024
# After so many seconds the impatient server takes a client for silent, so that the tests need not wait.
SILENCE = 1.0


@dataclass(frozen=True)
class Running:
    """A server, where it listens, and its log."""

    site: Site
    pid: int
    port: int
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def browser(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, **options)

    def open_files(self) -> list[str]:
        found = []
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            # The server closes files meanwhile.
            with suppress(FileNotFoundError):
                found.append(os.readlink(path))
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "static").mkdir()
    with prepared(folder) as site:
        yield site


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[Running]:
    with running(site, PATIENCE) as server:
        yield server


@pytest.fixture(scope="module")
def impatient_server(site: Site) -> Iterator[Running]:
    with running(site, SILENCE) as server:
        yield server


@contextmanager
def running(site: Site, silence: float) -> Iterator[Running]:
    port = free_port()
    path = site.folder / f"log-{port}"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [*site.python, "-c", SERVE, str(port), str(silence)],
            env={**site.environment, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            assert process.stdout
            pid = int(process.stdout.readline())
            wait_for_port(process, port)
            yield Running(site, pid, port, path)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def send(connection: socket.socket, data: bytes) -> None:
    """Send to a server that may have taken this client for silent already, if the machine held it up."""
    with suppress(ConnectionError):
        connection.sendall(data)


def answer_to(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    answer = b""
    while part := _read(connection):
        answer += part
    return answer


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


@contextmanager
def answered(server: Running, request: bytes, until: bytes) -> Iterator[tuple[socket.socket, bytes]]:
    """Send a request to the impatient server; yield the connection and its answer as far as these words."""
    for _ in range(50):
        began = time.monotonic()
        with server.connect() as connection:
            send(connection, request)
            answer = b""
            while until not in answer and (part := _read(connection)):
                answer += part
            if until in answer:
                yield connection, answer
                return
        # Only a client that was held up for so long is left without an answer.
        assert time.monotonic() - began >= SILENCE, answer
    pytest.fail("never answered")


@pytest.mark.parametrize(
    ("path", "how"), [("/login/", "declared"), ("/jobs/new/", "streamed"), ("/mcp", "streamed")]
)
def test_large_body_is_refused_and_leaves_nothing_behind(server: Running, path: str, how: str):
    length = {"declared": "Content-Length: 16000000", "streamed": "Transfer-Encoding: chunked"}[how]
    with server.connect() as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n\r\n".encode())
        if how == "streamed":
            try:
                for _ in range(32):
                    connection.sendall(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
            except ConnectionError:
                pass
        answer = answer_to(connection)

    # Without a token, /mcp does not read a body at all.
    assert answer.split(b" ")[1] in ({b"413", b"401"} if path == "/mcp" else {b"413"})
    assert b"connection: close" in answer
    # A spooled body would be a file without a name.
    assert [name for name in server.open_files() if "(deleted)" in name and "/dev/shm" not in name] == []  # noqa: S108


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    ],
    ids=["nothing", "line", "headers"],
)
def test_client_that_stops_sending_is_disconnected(impatient_server: Running, sent: bytes):
    with impatient_server.connect() as connection:
        send(connection, sent)

        assert b"HTTP/1.1 408" not in answer_to(connection)


def test_client_that_stops_in_a_body_is_told_and_disconnected(impatient_server: Running):
    request = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx"
    with answered(impatient_server, request, until=b"HTTP/1.1 408") as (connection, answer):
        assert (answer + answer_to(connection)).count(b"HTTP/1.1 408") == 1


def test_client_that_stops_in_its_second_request_is_disconnected(impatient_server: Running):
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with answered(impatient_server, request, until=b"ok\n") as (connection, _):
        connection.sendall(b"GET /")

        assert answer_to(connection) == b""


def test_silent_clients_make_room_within_the_time_limits(impatient_server: Running):
    server = impatient_server
    with ExitStack() as stack:
        for number in range(HANDLES // 2 + 76):
            connection = stack.enter_context(closing(server.connect()))
            if number % 3 == 0:
                send(connection, b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx")
        wait_for(lambda: len(server.open_files()) < 50)
        # No cluster is running, so that the site is not ready.
        for path, status in (("/healthz", b"200"), ("/readyz", b"503"), ("/login/", b"200")):
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
            with answered(server, request, until=b"\r\n") as (_, answer):
                assert answer.split(b" ")[1] == status


def test_subscription_stays_open_longer_than_the_time_limits(impatient_server: Running):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {"notifications": {"resourcesListChanged": True}, "_meta": meta},
    }
    headers = {
        "Authorization": f"Bearer {impatient_server.site.token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    request = json.dumps(body).encode()
    lines = [f"{name}: {value}" for name, value in {**headers, "Content-Type": "application/json"}.items()]
    head = "\r\n".join(
        ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", *lines, f"Content-Length: {len(request)}", "", ""]
    )
    with answered(impatient_server, head.encode() + request, until=b"200 OK") as (connection, _):
        connection.settimeout(3 * SILENCE)
        with pytest.raises(TimeoutError):
            answer_to(connection)


def test_answers_that_wait_keep_no_place_and_no_connection(server: Running):
    def tells(token: str, method: str, path: str, *headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    tokens = [issued(server.site, f"program {number}") for number in range(3)]
    with ExitStack() as opened:
        api = opened.enter_context(server.browser(headers={"Authorization": f"Bearer {tokens[0]}"}))
        keys = []
        for number in range(3):
            # Few runs of one job may wait.
            job = {"name": f"Report {number}", "schedule": "@manual", "task": "notify"}
            kwargs = {"message": "m", "topic": "t"}
            job_id = api.post("/api/v1/jobs", json={**job, "kwargs": kwargs}).json()["id"]
            keys.append(api.post(f"/api/v1/jobs/{job_id}/trigger").json()["url"].rpartition("/")[2])
        waiting = [opened.enter_context(server.connect()) for _ in range(12)]
        for number, connection in enumerate(waiting):
            path = f"/trigger/{keys[number % 3]}?wait=60"
            send(connection, tells("", "POST", path, "Content-Length: 0"))
        streams = [opened.enter_context(server.connect()) for _ in range(12)]
        for number, connection in enumerate(streams):
            # Few of one token may be open.
            path, accept = (
                ("/api/v1/events", "text/event-stream") if number % 2 else ("/api/v1/events/stream", "*/*")
            )
            send(connection, tells(tokens[number % 3], "GET", path, f"Accept: {accept}"))
        for connection in streams:
            said = b""
            while b"retry: 5000" not in said:
                part = _read(connection)
                assert part, said
                said += part
        wait_for(lambda: len(api.get("/api/v1/runs").json()["runs"]) == len(waiting))

        assert api.get("/login/").status_code == 200
        wait_for(lambda: sum(path.endswith("-wal") for path in server.open_files()) < len(waiting))
        assert select(waiting, [], [], 0) == ([], [], []), (
            "a trigger was answered, so that the page had a place"
        )


def issued(site: Site, name: str) -> str:
    """Issue the token of a program."""
    arguments = "--user", "olga", "--name", name, "--kind", "program"
    out, err = site.start("issue_token", *arguments).communicate()
    assert out, err.decode()
    return out.decode().strip()


def test_forged_address_is_not_counted(server: Running):
    """Ten guesses with different forwarded addresses are ten guesses from one address."""
    statuses = []
    for number in range(7):
        forged = "not-an-ip" if number == 3 else f"203.0.113.{number}"
        with server.browser(headers={"X-Forwarded-For": forged}) as browser:
            page = browser.get("/login/").text
            token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
            assert token
            form = {"username": "sam", "password": "wrong", "csrfmiddlewaretoken": token[1]}
            statuses.append(browser.post("/login/", data=form).status_code)

    assert statuses == [200] * 4 + [429] * 3
    log = server.log.read_text()
    assert 'Login failed from 127.0.0.1, name "sam", failure 4' in log
    assert "203.0.113" not in log
