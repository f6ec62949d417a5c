"""Requests that no browser and no agent would send: every one is answered, in time and without a traceback.

`make test` sends a small number. HOSTILE_REQUESTS=20000, in `make fuzz`, is the long run.
"""

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import Client

from cronty_site.asgi import build_application
from schedules.services import issue_token
from schedules.web.views.activity import FILTERS as EVENTS
from schedules.web.views.jobs import FILTERS as JOBS
from schedules.web.views.runs import FILTERS as RUNS
from tests.clusters import PROJECT
from tests.mcp.contract import recorded
from tests.mcp.over_http import running
from tests.security.addresses import Address, every_address
from tests.security.hostile import Hostile, encoded, fields_of, to_mcp, to_page
from tests.security.owned_rows import OwnedRows
from tests.security.test_authorization import examples
from tests.sizes import sizes
from tests.waiting import PATIENCE

IS_LONG = "HOSTILE_REQUESTS" in os.environ
SEED = int(os.environ.get("HOSTILE_SEED", "1"))
# Of ten requests.
TO_MCP, TO_PAGES = 3, 7
numbers_of_requests = pytest.mark.parametrize("number", sizes(40, 300, "HOSTILE_REQUESTS"))
# Processor time, which does not depend on what else the machine does.
LONGEST_SECONDS = 10.0
STUCK_SECONDS = PATIENCE
BATCH = 50
NASTY = ("\x00", "9" * 5000)
# Loggers in which Django reports a request that it refused with 400 or 403, with a traceback.
REFUSALS = ("django.security", "django.request")


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        f"{record.name}: {record.getMessage()}"
        for record in caplog.records
        if (record.exc_info or record.exc_text)
        and not (
            record.name.startswith("django.security")
            or (record.levelno < logging.ERROR and record.name in REFUSALS)
        )
    ]


@dataclass(frozen=True)
class Page:
    """A page's valid address, and the names that it reads."""

    address: Address
    examples: dict[str, Any]
    client: Client

    @property
    def path(self) -> str:
        return self.address.path(self.examples)

    @cached_property
    def html(self) -> str:
        with transaction.atomic():
            html = b"".join(self.client.get(self.path)).decode(errors="replace")
            transaction.set_rollback(True)
        return html

    @cached_property
    def fields(self) -> dict[str, str]:
        """The fields of its forms."""
        return fields_of(self.html)

    @cached_property
    def names(self) -> list[str]:
        return sorted(asked_for() | set(self.fields) | set(re.findall(r"[?&;](\w+)=", self.html)))


@pytest.fixture
def pages(owned: OwnedRows, visit: Callable[[str], Client]) -> list[Page]:
    """Every page of the site, which is read when its fields are asked for."""
    client = visit("staff")
    return [Page(address, examples(address, owned), client) for address in every_address()]


@pytest.mark.timeout(6000)
@numbers_of_requests
def test_no_page_breaks_or_gets_stuck(
    pages: list[Page],
    visit: Callable[[str], Client],
    db: None,
    caplog: pytest.LogCaptureFixture,
    number: int,
):
    random = Random(SEED)
    outside_admin = [page for page in pages if not page.address.is_admin]
    # The admin has more addresses, the other pages more readers.
    chosen = [random.choice(random.choice((pages, outside_admin))) for _ in range(number * TO_PAGES // 10)]
    names = sorted({name for page in chosen for name in page.fields} | asked_for())
    broken, slow = [], []
    for page in chosen:
        request = to_page(random, page.address.route, page.examples, page.fields, names)
        person = random.choice(("owner", "owner", "staff", "staff", "anonymous"))
        # A new browser each time: the request before may have logged this person out.
        status, seconds = timed(visit(person), request)
        # A slow machine may need another try.
        if seconds > LONGEST_SECONDS and all(
            timed(visit(person), request)[1] > LONGEST_SECONDS for _ in range(2)
        ):
            slow.append(str(request))
        if status >= 500 and not page.address.name.endswith("ready"):
            broken.append(f"{status} to {person}: {request}")

    assert broken == []
    assert slow == []
    assert tracebacks(caplog) == []


@pytest.mark.verify
@pytest.mark.on_postgresql
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("nasty", [pytest.param(nasty, id=quote(nasty)[:12]) for nasty in NASTY])
def test_no_page_breaks_on_values_that_break_databases_and_parsers(
    pages: list[Page], visit: Callable[[str], Client], db: None, nasty: str
):
    """Send this value as every name that a page reads, as each parameter of its address and as each field of its form."""
    client, broken, tried = visit("staff"), [], Counter[str]()
    fields = sorted({name for page in pages if not page.address.is_admin for name in page.fields})
    assert {"phrase", "timezone", "name"} <= set(fields)
    # The short run sends each field once, on one page, with one of the values.
    chosen = fields if IS_LONG else fields[NASTY.index(nasty) :: len(NASTY)]
    for page in pages:
        requests = [Hostile("GET", f"{page.path}?{encoded((name, nasty) for name in page.names)}")]
        for name in page.address.parameters:
            requests.append(Hostile("GET", page.address.path(page.examples | {name: quote(nasty)})))
        for name in page.fields if not page.address.is_admin else ():
            if name in chosen and (IS_LONG or not tried[name]):
                tried[name] += 1
                body = encoded((page.fields | {name: nasty}).items()).encode()
                requests.append(Hostile("POST", page.path, body))
        for request in requests:
            status = send(client, request)
            if status >= 500 and not page.address.name.endswith("ready"):
                broken.append(f"{status}: {request}")

    assert set(tried) == set(chosen)
    assert broken == []


def test_nul_in_a_request_finds_nothing(owned: OwnedRows, visit: Callable[[str], Client]):
    client = visit("owner")

    statuses = [client.get(path).status_code for path in ("/jobs/%00/", "/calendar/%00.ics")]
    answers = [
        client.get(f"{path}=a%00b%%0000") for path in ("/?q", "/?tag", "/runs/?job", "/activity/?verb")
    ]

    assert statuses == [400, 400]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [len(answer.context["listed"].rows) for answer in answers] == [0] * 4


@cache
def asked_for() -> frozenset[str]:
    """Return the names that the views read from queries and forms, also those that only links carry."""
    sources = (PROJECT / "schedules/web").rglob("*.py")
    read = re.compile(r'(?:GET|POST)\.get(?:list)?\("(\w+)"')
    found = {name for source in sources for name in read.findall(source.read_text())}
    return frozenset({*found, *RUNS, *JOBS, *EVENTS})


def send(client: Client, request: Hostile) -> int:
    """Send a request and roll back what it changed, so that every request meets the same site."""
    client.raise_request_exception = False
    with transaction.atomic():
        answer = client.generic(
            request.method, request.path, request.body, request.content_type, headers=request.headers
        )
        b"".join(answer)
        transaction.set_rollback(True)
    return int(answer.status_code)


def timed(client: Client, request: Hostile) -> tuple[int, float]:
    """Send a request; return the status and the seconds of processor time."""
    begun = time.thread_time()
    return send(client, request), time.thread_time() - begun


@pytest.mark.timeout(6000)
@numbers_of_requests
def test_no_request_to_mcp_breaks_it_or_gets_stuck(
    owned: OwnedRows, caplog: pytest.LogCaptureFixture, number: int
):
    random, tools = Random(SEED), {tool["name"]: tool for tool in recorded()["tools"]}
    token = issue_token(owned.owner, name="laptop").value.text
    requests = [to_mcp(random, token, tools) for _ in range(number * TO_MCP // 10)]
    caplog.clear()
    statuses: list[int] = []

    async def send_all(batch: list[Hostile]) -> None:
        async with running(build_application()) as app:
            for request in batch:
                statuses.append(await status_of(app, request))

    for start in range(0, len(requests), BATCH):
        with transaction.atomic():
            async_to_sync(send_all)(requests[start : start + BATCH])
            transaction.set_rollback(True)

    broken = [
        f"{status}: {request}"
        for status, request in zip(statuses, requests, strict=True)
        if not 200 <= status < 500
    ]
    assert broken == []
    assert tracebacks(caplog) == []
    # Enough are accepted to reach the tools themselves.
    assert statuses.count(200) > len(requests) // 4


async def status_of(app: Callable[..., Awaitable[None]], request: Hostile) -> int:
    """Call the ASGI app directly with a request that no client library would send; 0 means no answer in time."""
    scope = {
        **{
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "query_string": b"",
        },
        **{
            "method": request.method,
            "path": request.path,
            "raw_path": request.path.encode(),
            "root_path": "",
        },
        **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)},
        "headers": [
            (b"content-type", request.content_type.encode("latin-1")),
            (b"content-length", str(len(request.body)).encode()),
            *((name.lower().encode(), text.encode("latin-1")) for name, text in request.headers.items()),
        ],
    }
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": request.body, "more_body": False}]
    answered: list[dict[str, Any]] = []
    is_over = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), request.closes_after)
        return {"type": "http.disconnect"}

    async def answer(message: dict[str, Any]) -> None:
        answered.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            is_over.set()

    try:
        async with asyncio.timeout(STUCK_SECONDS):
            await app(scope, receive, answer)
    except TimeoutError:
        return 0
    return next((int(message["status"]) for message in answered if "status" in message), 0)
