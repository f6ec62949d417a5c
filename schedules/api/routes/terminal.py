"""The terminal on other machines: execute a command line here, and stream back what it prints."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from weakref import WeakSet

from django.db import connections
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from schedules import clock
from schedules.api.auth import READS, Caller, scope_missing
from schedules.api.endpoints import check_query
from schedules.api.problems import ProblemError
from schedules.api.schemas.terminal import LineIn
from schedules.api.streams import reason_if_full
from schedules.models import Token
from schedules.services.long_answers import stream_while_waiting

Emit = Callable[[dict[str, Any]], None]

# Executed at a time, of one token, of one person and in this process.
MAX_LINES = 5
MAX_LINES_PER_PERSON = 8
MAX_LINES_IN_PROCESS = 20
SILENT_SECONDS = 10.0

logger = logging.getLogger(__name__)
router = Router(tags=["terminal"])
_threads = ThreadPoolExecutor(MAX_LINES_IN_PROCESS, thread_name_prefix="terminal")
# Weak, because the response of a client that is gone already is never read.
_open: WeakSet["Line"] = WeakSet()


class Terminal(Protocol):
    """What a site provides: the commands belong to it, not to the app."""

    def only_reads(self, words: list[str]) -> bool: ...

    def run(self, caller: Caller, line: LineIn, emit: Emit, is_over: Callable[[], bool]) -> None: ...


class Site:
    """The terminal of this site, if it has one."""

    terminal: Terminal | None = None


class Line:
    """A command line that is being executed."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self._over = threading.Event()

    def end(self) -> None:
        self._over.set()

    def is_over(self) -> bool:
        """Return whether nobody waits for it or its token has ended; called about once a second."""
        if not self._over.is_set() and not Token.objects.usable(clock.now()).filter(pk=self.caller.token_id):
            self._over.set()
        return self._over.is_set()


def end_lines() -> None:
    """End all command lines: a stopping server waits for open responses, and some follow something forever."""
    for line in list(_open):
        line.end()


@router.post(
    "/terminal",
    auth=READS,
    operation_id="run_command_line",
    summary="Execute a command line of `cronty`",
    description="Execute a command line of `cronty`.\n\nThe answer is lines of JSON: `out` and `err` with what it "
    "prints, `ask` with a question to the machine of the person, which is answered by the same request with "
    "`answers`, and at last `exit` with the exit code. Commands that change something need the scope `write`.",
    openapi_extra={
        "x-scope": "read",
        "x-repeatable": False,
        "x-if-match": "",
        "responses": {
            200: {"description": "OK", "content": {"application/jsonl": {"schema": {"type": "string"}}}}
        },
    },
)
async def run_command_line(request: HttpRequest, body: LineIn) -> Any:
    check_query(request, ())
    caller: Caller = request.auth  # type: ignore[attr-defined]
    terminal = Site.terminal
    if terminal is None:
        raise ProblemError(404, "not_found", "This site has no terminal.")
    if not terminal.only_reads(body.words) and "write" not in caller.scopes:
        raise scope_missing("write")
    most = MAX_LINES, MAX_LINES_PER_PERSON, MAX_LINES_IN_PROCESS
    taken = [line.caller.token for line in _open]
    if reason := reason_if_full("command lines", taken, caller.token, most):
        raise ProblemError(429, "too_many_lines", reason, headers={"Retry-After": "10"})
    line = Line(caller)
    _open.add(line)
    # Compression would hold back what is printed.
    request.META["HTTP_ACCEPT_ENCODING"] = ""
    events = _events(terminal, line, body)
    response = StreamingHttpResponse(stream_while_waiting(request, events), content_type="application/jsonl")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _events(terminal: Terminal, line: Line, body: LineIn) -> AsyncGenerator[str]:
    """Execute a command line in a thread of its own, and yield what it prints as it prints it."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def emit(event: dict[str, Any] | None) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    def run() -> None:
        try:
            terminal.run(line.caller, body, emit, line.is_over)
        except Exception:
            logger.exception("An error in the command line %s", body.words[:1])
            emit({"err": "cronty: Something went wrong on the server; its log says more.\n"})
            emit({"exit": 1})
        finally:
            connections.close_all()
            emit(None)

    try:
        running = loop.run_in_executor(_threads, run)
        while True:
            try:
                event = await asyncio.wait_for(events.get(), SILENT_SECONDS)
            except TimeoutError:
                # Proxies close silent connections.
                yield "\n"
                continue
            if event is None:
                break
            yield json.dumps(event) + "\n"
        await running
    finally:
        line.end()
        _open.discard(line)
