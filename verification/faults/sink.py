"""The target of the campaign's jobs: records every delivery by its own clock, and misbehaves on demand."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from verification.faults.records import Delivery

Manner: TypeAlias = Literal["well", "hangs", "streams", "429", "500", "redirects"]
ANSWERS = {
    # With an id, as an ntfy server answers.
    "well": b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{"id": "ok-1"}',
    "429": b"HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "500": b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "redirects": b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}


# What targets below /sealed/ ask for; jobs refer to it by the name of the secret.
API_KEY, SECRET_NAME = "a-key-that-nobody-sees-4711", "CAMPAIGN"
# How long targets below /slow/ keep their callers waiting, in seconds.
HOLD = 1.3
# How the statement begins with which a claim writes the rows of due slots.
INSERT = b"INSERT INTO schedules_execution"


class Loop:
    """An event loop in its own thread, for servers that run beside the campaign."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="servers")

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(self._end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    async def _end_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=5)


class Sink:
    """Accepts each Idempotency-Key once.

    Only targets below /weak/ misbehave; those below /slow/ answer slowly, and those below /sealed/ want an API key.
    """

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.manner: Manner = "well"
        self.port = 0
        self._accepted: set[str] = set()
        # What the wings sent: to which topic or path, with which key, and the body.
        self.messages: list[dict[str, Any]] = []
        # A receiver of events that gives no answer, and how many of its requests waited at once.
        self.is_deaf = False
        self.most_at_once = 0
        self.unanswered: list[dict[str, Any]] = []
        self._waiting = 0

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            path, headers, body = await _read(reader)
            if path == "/wing/deaf" and await self._is_unanswered(reader, body):
                writer.close()
                return
            if self._is_of_wings(path, headers, body):
                await self._answer(writer, "well")
                writer.close()
                return
            manner = self.manner if path.startswith("/weak/") else "well"
            if path.startswith("/sealed/") and headers.get("x-api-key") != API_KEY:
                manner = "500"
            hold = HOLD if path.startswith("/slow/") else 0.0
            if key := headers.get("idempotency-key", ""):
                self._note(key, headers, manner, hold)
            await asyncio.sleep(hold)
            await self._answer(writer, manner)
        writer.close()

    async def _is_unanswered(self, reader: asyncio.StreamReader, body: bytes) -> bool:
        """Keep a request waiting while the receiver is deaf, until its caller gives up."""
        self._waiting += 1
        self.most_at_once = max(self.most_at_once, self._waiting)
        try:
            if self.is_deaf:
                self.unanswered.append(json.loads(body))
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), 30)
                return True
            await asyncio.sleep(0.05)
            return False
        finally:
            self._waiting -= 1

    def _is_of_wings(self, path: str, headers: dict[str, str], body: bytes) -> bool:
        sent = json.loads(body) if body.startswith(b"{") else {}
        place = path if path.startswith("/wing/") else str(sent.get("topic", ""))
        if not place.startswith(("/wing/", "wing-")):
            return False
        key = headers.get("webhook-id") or headers.get("idempotency-key", "")
        self.messages.append({"at": time.time(), "place": place, "key": key, "body": sent})
        return True

    def _note(self, key: str, headers: dict[str, str], manner: Manner, hold: float) -> None:
        # A server that streams has answered 200, and its caller must not send the request again.
        is_refused = manner not in ("well", "streams")
        verdict: Any = "refused" if is_refused else "repeated" if key in self._accepted else "accepted"
        if verdict == "accepted":
            self._accepted.add(key)
        self.deliveries.append(
            Delivery(
                at=time.time(),
                execution=int(headers.get("cronty-execution", 0)),
                key=key,
                attempt=int(headers.get("cronty-attempt", 0)),
                verdict=verdict,
                held=hold,
                host=headers.get("user-agent", ""),
            )
        )

    async def _answer(self, writer: asyncio.StreamWriter, manner: Manner) -> None:
        if manner == "hangs":
            await asyncio.sleep(30)
        if manner == "streams":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            for _ in range(300):
                writer.write(b"." * 1024)
                await writer.drain()
                await asyncio.sleep(0.1)
            return
        writer.write(ANSWERS.get(manner, b""))
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return lines[0].split()[1], headers, body


class Proxy:
    """A connection between the product and a server that can be cut, slowed down or reset."""

    def __init__(self, target: Callable[[], int], target_host: str = "127.0.0.1") -> None:
        self.port = 0
        self.target_host = target_host
        self.delay = 0.0
        self.is_cut = False
        # Called with the caller's port when it has sent the COMMIT of a transaction that inserts ledger rows, before
        # the answer is passed on.
        self.on_commit: Callable[[int], None] | None = None
        self._target = target
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        await self.reset()

    async def reset(self) -> None:
        """Close all connections immediately."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(self.target_host, self._target())
                self._open.add(far_writer)
                try:
                    port = writer.get_extra_info("peername")[1]
                    await asyncio.gather(
                        self._pass(reader, far_writer, port),
                        self._pass(far_reader, writer),
                        return_exceptions=True,
                    )
                finally:
                    self._open.discard(far_writer)
                    far_writer.close()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int | None = None
    ) -> None:
        has_inserted = False
        try:
            while data := await reader.read(65_536):
                has_inserted |= INSERT in data
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.is_cut:
                    # The data is never delivered, and neither end is notified.
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
                if port and b"COMMIT" in data:
                    if has_inserted and self.on_commit:
                        self.on_commit(port)
                    has_inserted = False
        finally:
            with suppress(OSError, RuntimeError):
                writer.write_eof()
