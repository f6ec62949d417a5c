"""A real server process with 1,024 file handles: silent and slow clients, large bodies, guesses and forged headers."""

import json
import os
import re
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clusters import PROJECT
from tests.mcp.processes import Site, free_port, prepared, wait_for_port
from tests.waiting import PATIENCE, wait_for

# Short times, so that the tests need not wait.
SERVE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import django
django.setup()
from django.conf import settings
# The pages need no collected files then.
settings.STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
from schedules.serving import connections, guards
connections.HEADERS = guards.BETWEEN_BYTES = 1.0
guards.LINGER_SECONDS = 0.2
from cronty_site.asgi import application
from schedules.serving.server import serve
import os
print(os.getpid(), flush=True)
serve(application, host="127.0.0.1", port=int(sys.argv[1]))
"""
HANDLES = 1024


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
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    (folder / "static").mkdir()
    with prepared(folder) as site, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*site.python, "-c", SERVE, str(port)],
            env={**site.environment, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            assert process.stdout
            pid = int(process.stdout.readline())
            wait_for_port(process, port)
            yield Running(site, pid, port, folder / "log")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


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


@pytest.mark.parametrize("path", ["/healthz", "/login/", "/jobs/new/", "/mcp"])
@pytest.mark.parametrize("how", ["declared", "streamed"])
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
        b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx",
    ],
    ids=["nothing", "line", "headers", "body"],
)
def test_client_that_stops_sending_is_disconnected(server: Running, sent: bytes):
    with server.connect() as connection:
        connection.sendall(sent)

        answer = answer_to(connection)

    assert answer.count(b"HTTP/1.1 408") == (1 if sent.startswith(b"POST") else 0)


def test_client_that_stops_in_its_second_request_is_disconnected(server: Running):
    with server.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok\n"):
            answer += connection.recv(65_536)
        connection.sendall(b"GET /")

        assert answer_to(connection) == b""


def test_more_connections_than_file_handles_do_not_stop_the_pages(server: Running):
    size = server.log.stat().st_size
    with ExitStack() as stack:
        for number in range(HANDLES + 76):
            connection = stack.enter_context(closing(server.connect()))
            if number % 3 == 0:
                connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx")
        with server.browser() as browser:
            statuses = [browser.get(path).status_code for path in ("/healthz", "/readyz", "/login/")]

        # No cluster is running, so that the site is not ready.
        assert statuses == [200, 503, 200]
        assert len(server.open_files()) < HANDLES * 3 / 4
        wait_for(lambda: len(server.open_files()) < 50)
    assert server.log.stat().st_size - size < 5_000


def test_failed_accepts_are_logged_once(server: Running):
    """With every file handle taken, the server cannot accept connections; then it goes on."""
    lines = server.log.read_text().count("could not be accepted")
    soft, hard = _limit(server.pid)
    _limit(server.pid, (len(server.open_files()), hard))
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(server.connect()))
        wait_for(lambda: server.log.read_text().count("could not be accepted") == lines + 1)
        _limit(server.pid, (soft, hard))
        with server.browser() as browser:
            assert browser.get("/healthz").text == "ok\n"
    assert server.log.read_text().count("could not be accepted") == lines + 1


def test_subscription_stays_open_longer_than_the_time_limits(server: Running):
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
        "Authorization": f"Bearer {server.site.token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    request = json.dumps(body).encode()
    lines = [f"{name}: {value}" for name, value in {**headers, "Content-Type": "application/json"}.items()]
    head = "\r\n".join(
        ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", *lines, f"Content-Length: {len(request)}", "", ""]
    )
    with server.connect() as connection:
        connection.sendall(head.encode() + request)
        assert b"200 OK" in connection.recv(65_536)

        # The time-outs of this server are one second.
        connection.settimeout(3)
        with pytest.raises(TimeoutError):
            answer_to(connection)


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


def _limit(pid: int, limits: tuple[int, int] | None = None) -> tuple[int, int]:
    if limits is None:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
