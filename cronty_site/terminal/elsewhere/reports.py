"""Reports of a wrapped command: send them, and spool them on disk while the server is unavailable."""

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from cronty_site.terminal.elsewhere.child import MAX_OUTPUT_BYTES
from cronty_site.terminal.elsewhere.server import AwayError, Reply, Server

# A report that is older than this when it is sent is marked as late.
LATE_AFTER = 2.0
MAX_SPOOLED = 1_000
MAX_SPOOLED_BYTES = 10_000_000
MAX_SPOOLED_OUTPUT = 10_000
# Statuses for an output that is too long, or that a firewall before Cronty rejects.
OUTPUT_REFUSED = (403, 413, 422)
# How long spooled reports are sent before a new one.
SPOOL_SECONDS = 20.0
WAIT_FOR_OTHERS = 5.0
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_SLUG = re.compile(r"[a-z0-9_-]{1,100}")
_number = count()


class Outcome(Enum):
    """The outcome of sending a report: stored, refused for good, or the server is unavailable."""

    STORED = "stored"
    REFUSED = "refused"
    AWAY = "away"


@dataclass(frozen=True)
class Report:
    """The start or the end of a command."""

    job: str
    rid: str
    at: float
    """When it happened, in seconds since 1970."""
    code: int | None = None
    """The exit code of an end; None for a start."""
    output: str = ""
    create: bool = False

    def send(self, server: Server, timeout: float) -> tuple[Outcome, str]:
        """Send it once; return the outcome, and why it was not stored."""
        late = time.time() - self.at
        late = late if late >= LATE_AFTER else 0.0
        try:
            reply = self._ask(server, timeout, late, self.output)
            if self.output and reply.status in OUTPUT_REFUSED:
                # Report the end of a command even if its output is refused.
                reply = self._ask(server, timeout, late, f"(The output was refused: {_describe(reply)}.)")
        except AwayError as error:
            return Outcome.AWAY, str(error)
        if self._is_stored(reply, server):
            return Outcome.STORED, ""
        problem = _describe(reply)
        if 300 <= reply.status < 400:
            address = reply.headers.get("location", "another address")
            return Outcome.AWAY, f"it redirects to {address}: set CRONTY_URL to that"
        if reply.status in (408, 425, 429) or reply.status >= 500:
            return Outcome.AWAY, problem
        if not self._is_of_cronty(reply, server):
            # A captive portal answers 200, and a proxy may answer 404 while Cronty restarts.
            return Outcome.AWAY, f"something else answers at this address: {problem}"
        return Outcome.REFUSED, problem

    def _ask(self, server: Server, timeout: float, late: float, output: str) -> Reply:
        if self._uses_token(server):
            sent: dict[str, Any] = {"kind": "start" if self.code is None else "end", "run_id": self.rid}
            if self.code is not None:
                sent |= {"exit_code": self.code, "output": _as_text(output)}
            text = json.dumps(sent | ({"late_by": round(late, 3)} if late else {}), ensure_ascii=False)
            path = f"/api/v1/heartbeats/{quote(self.job, safe='')}/ping"
            body = text.encode(errors="replace")
            return server.ask("POST", path, body, {"Content-Type": "application/json"}, timeout)
        place = self.job if UUID.fullmatch(self.job) else f"{server.ping_key}/{slug_of(self.job)}"
        action = "start" if self.code is None else str(self.code)
        query = urlencode({"rid": self.rid} | ({"create": "1"} if self.create else {}))
        headers = {"Content-Type": "text/plain"} | ({"Cronty-Late": f"{late:.3f}"} if late else {})
        # The address of a ping is its key: do not send the token.
        pinged, body = Server(server.url), output.encode(errors="replace")
        return pinged.ask("POST", f"/ping/{place}/{action}?{query}", body, headers, timeout)

    def _uses_token(self, server: Server) -> bool:
        return not server.ping_key and not UUID.fullmatch(self.job)

    def _is_stored(self, reply: Reply, server: Server) -> bool:
        if reply.status not in (200, 201):
            return False
        return _is_json(reply, "json") if self._uses_token(server) else reply.body in (b"OK", b"Created")

    def _is_of_cronty(self, reply: Reply, server: Server) -> bool:
        """Return whether the refusal comes from Cronty itself."""
        if self._uses_token(server):
            return _is_json(reply, "problem+json")
        return reply.status >= 400 and "ping-body-limit" in reply.headers


def _as_text(output: str) -> str:
    """Return an output as text for JSON, without NUL and within the limit of a ping."""
    return output.replace("\0", "").encode(errors="replace")[-MAX_OUTPUT_BYTES:].decode(errors="ignore")


def slug_of(name: str) -> str:
    """Return the slug of a job in ping addresses."""
    if _SLUG.fullmatch(name):
        return name
    from django.utils.text import slugify  # noqa: PLC0415  (the same rule as the server's; most names need none)

    return slugify(name)[:100].rstrip("-")


def _is_json(reply: Reply, kind: str) -> bool:
    return reply.headers.get("content-type", "").startswith(f"application/{kind}")


def _describe(reply: Reply) -> str:
    text = reply.body[:2000].decode(errors="replace").strip()
    if _is_json(reply, "problem+json"):
        try:
            text = str(json.loads(text)["detail"])
        except (ValueError, KeyError, TypeError):
            text = ""
    elif not reply.headers.get("content-type", "").startswith("text/plain"):
        text = ""
    return f"{reply.status} {text}".strip()


class Spool:
    """The unsent reports for one server and key, as files; the oldest are deleted to make room."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder / server.digest
        self._server = server

    def add(self, report: Report) -> Path:
        """Store a report on disk, and return its file. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{time.time_ns():020}-{os.getpid()}-{next(_number)}"
        partial = self._folder / f".{name}"
        values = asdict(report) | {"output": report.output[-MAX_SPOOLED_OUTPUT:]}
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        # Rename it when it is complete, so that nobody reads half of it.
        return partial.rename(self._folder / f"{name}.json")

    def send(
        self, timeout: float, say: Callable[[str], None], own: Mapping[Path, Report] | None = None
    ) -> tuple[Outcome, str]:
        """Send the reports, oldest first, until the server is unavailable; return why it is.

        `own` reports of this process have their whole output.
        """
        own = own or {}
        if not self._files():
            return Outcome.STORED, ""
        deadline = time.monotonic() + SPOOL_SECONDS
        with self._locked() as is_mine:
            # If the lock is taken, another process is sending them.
            for file in self._files() if is_mine else []:
                if time.monotonic() > deadline:
                    break
                report = own.get(file) or _read(file)
                outcome, why = (
                    report.send(self._server, timeout) if report else (Outcome.REFUSED, "unreadable")
                )
                if outcome == Outcome.AWAY:
                    return outcome, why
                if outcome == Outcome.REFUSED and file in own:
                    say(f"The server refuses the report about {own[file].job}: {why}.")
                elif outcome == Outcome.REFUSED:
                    say(f"A report that was kept is dropped, because the server refuses it: {why}.")
                file.unlink(missing_ok=True)
        return Outcome.STORED, ""

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("[0-9]*.json"))
        except OSError:
            return []

    def make_room(self) -> int:
        """Delete the oldest reports beyond the limits; return how many."""
        sizes = []
        for file in self._files():
            try:
                sizes.append((file, file.stat().st_size))
            except FileNotFoundError:
                # Another process has sent it.
                continue
        total, dropped = sum(size for _, size in sizes), 0
        while len(sizes) - dropped > MAX_SPOOLED or total > MAX_SPOOLED_BYTES:
            file, size = sizes[dropped]
            file.unlink(missing_ok=True)
            total -= size
            dropped += 1
        return dropped

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Lock the spool; yield False if another process still holds it after a short wait."""
        with (self._folder / ".lock").open("w") as file:
            deadline, pause = time.monotonic() + WAIT_FOR_OTHERS, threading.Event()
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        yield False
                        return
                    pause.wait(0.1)
                    continue
                yield True
                return


def _read(file: Path) -> Report | None:
    try:
        return Report(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
