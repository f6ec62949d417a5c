"""A real HTTP server on loopback that records requests and misbehaves on demand."""

import gzip
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

Manner = Literal["answer", "hang", "drip", "endless", "endless-headers", "reset", "garbage", "cut"]


@dataclass(frozen=True)
class Answer:
    """The answer to one request, sent after `delay` seconds in the given manner."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    manner: Manner = "answer"

    @classmethod
    def redirect(cls, location: str, status: int = 302) -> Self:
        return cls(status=status, headers={"Location": location})

    @classmethod
    def gzip_bomb(cls, unpacked_bytes: int = 50_000_000) -> Self:
        return cls(body=gzip.compress(b"0" * unpacked_bytes, 9), headers={"Content-Encoding": "gzip"})


@dataclass(frozen=True)
class Received:
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


class Sink:
    """Run the server for the length of a `with` block."""

    def __init__(self, answer: Answer | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.default = answer or Answer()
        self.next_answers: deque[Answer] = deque()
        self.respond: Callable[[Received], Answer] | None = None
        """Answers by the request, instead of the default."""
        self.requests: list[Received] = []
        self.connections = 0
        self.closing = threading.Event()
        self._server = _Server(self, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def then(self, *answers: Answer) -> None:
        """Queue answers for the next requests; the default follows."""
        self.next_answers.extend(answers)

    def reset(self) -> None:
        """Forget everything, for the next user of a shared sink."""
        self.default, self.respond = Answer(), None
        self.next_answers.clear()
        self.requests.clear()
        self.connections = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 512

    def __init__(self, sink: Sink, tls: ssl.SSLContext | None) -> None:
        self.sink = sink
        self.tls = tls
        self.open: set[socket.socket] = set()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.lock:
            self.sink.connections += 1
            self.open.add(request)
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        with self.tls.wrap_socket(request, server_side=True, suppress_ragged_eofs=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self.open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        with self.lock:
            for connection in self.open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients are expected to hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def answer(self) -> None:
        sink = self.server.sink
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            received = Received(self.command, self.path, headers, body, time.time())
            sink.requests.append(received)
            default = sink.respond(received) if sink.respond else sink.default
            answer = sink.next_answers.popleft() if sink.next_answers else default
        sink.closing.wait(answer.delay)
        getattr(self, f"do_{answer.manner.replace('-', '_')}")(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer  # noqa: N815

    def do_answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def do_hang(self, answer: Answer) -> None:
        self.server.sink.closing.wait()
        self.close_connection = True

    def do_drip(self, answer: Answer) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not self.server.sink.closing.wait(0.01):
            self.wfile.write(b".")
        self.close_connection = True

    def do_endless(self, answer: Answer) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not self.server.sink.closing.is_set():
            self.wfile.write(b"x" * 65_536)
        self.close_connection = True

    def do_endless_headers(self, answer: Answer) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.sink.closing.is_set():
            self.wfile.write(b"X-More: " + b"x" * 8000 + b"\r\n")
        self.close_connection = True

    def do_reset(self, answer: Answer) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def do_garbage(self, answer: Answer) -> None:
        self.wfile.write(b"220 mail.example ESMTP\r\n\r\n")
        self.close_connection = True

    def do_cut(self, answer: Answer) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + answer.body)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Log nothing."""
