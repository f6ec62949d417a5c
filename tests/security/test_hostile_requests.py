"""Does any request break a page or the agents' door? Long form: HOSTILE_REQUESTS=20000, in `make fuzz`."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http.cookies import SimpleCookie
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
from tests.security.addresses import every_address
from tests.security.belongings import Belongings
from tests.security.hostile import Hostile, encoded, fields_of, to_mcp, to_page
from tests.security.test_authorization import examples

REQUESTS = int(os.environ.get("HOSTILE_REQUESTS", "600"))
SEED = int(os.environ.get("HOSTILE_SEED", "1"))
TO_MCP = REQUESTS * 3 // 10
TO_PAGES = REQUESTS - TO_MCP
LONGEST_SECONDS = 10.0
BATCH = 50
NASTY = ("\x00", "9" * 5000)
# Where Django says that it refused a request with a 400 or a 403, with the place in its code where it did.
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


@pytest.mark.timeout(6000)
def test_no_page_breaks_or_gets_stuck(
    hers: Belongings, visit: Callable[[str], Client], caplog: pytest.LogCaptureFixture
):
    random, addresses = Random(SEED), every_address()
    pages = [address for address in addresses if not address.is_admin]
    browsers = {person: visit(person) for person in ("owner", "staff", "anonymous")}
    forms = {}
    for address in addresses:
        page = visit("staff").get(address.path(examples(address, hers)))
        forms[address] = fields_of(b"".join(page).decode())
    names = sorted({name for fields in forms.values() for name in fields} | asked_for())
    assert {"cron", "timezone", "page", "q", "since", "_selected_action"} <= set(names)
    sessions = {person: browser.cookies.output(header="") for person, browser in browsers.items()}
    caplog.clear()
    broken, slow = [], []
    for _ in range(TO_PAGES):
        # The back office has more addresses, the pages more readers.
        address = random.choice(random.choice((addresses, pages)))
        request = to_page(random, address.route, examples(address, hers), forms[address], names)
        person = random.choice(("owner", "owner", "staff", "staff", "anonymous"))
        # Whoever was logged out by the request before is back again.
        browsers[person].cookies = SimpleCookie(sessions[person])
        begun = time.monotonic()
        status = send(browsers[person], request)
        if time.monotonic() - begun > LONGEST_SECONDS:
            slow.append(str(request))
        if status >= 500 and address.name != "ready":
            broken.append(f"{status} to {person}: {request}")

    assert broken == []
    assert slow == []
    assert tracebacks(caplog) == []


@pytest.mark.parametrize("nasty", NASTY, ids=lambda nasty: quote(nasty)[:12])
def test_no_page_breaks_on_what_breaks_databases_and_parsers(
    hers: Belongings, visit: Callable[[str], Client], nasty: str
):
    """Every page with this value for all that it reads, in its address, and in one field of its form after another."""
    client, broken = visit("staff"), []
    for address in every_address():
        path = address.path(examples(address, hers))
        page = b"".join(client.get(path)).decode()
        fields = fields_of(page)
        names = asked_for() | set(fields) | set(re.findall(r"[?&;](\w+)=", page))
        requests = [Hostile("GET", f"{path}?{encoded((name, nasty) for name in sorted(names))}")]
        for name in address.parameters:
            requests.append(Hostile("GET", address.path(examples(address, hers) | {name: quote(nasty)})))
        for name in fields if not address.is_admin else ():
            requests.append(Hostile("POST", path, encoded((fields | {name: nasty}).items()).encode()))
        for request in requests:
            status = send(client, request)
            if status >= 500 and address.name != "ready":
                broken.append(f"{status}: {request}")

    assert broken == []


def test_nul_finds_nothing(hers: Belongings, visit: Callable[[str], Client]):
    client = visit("owner")

    statuses = [client.get(path).status_code for path in ("/jobs/%00/", "/calendar/%00.ics")]
    answers = [
        client.get(f"{path}=a%00b%%0000") for path in ("/?q", "/?tag", "/runs/?job", "/activity/?verb")
    ]

    assert statuses == [400, 400]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [len(answer.context["listed"].rows) for answer in answers] == [0] * 4


def asked_for() -> set[str]:
    """Return what the pages read of an address or a form, also what only links carry."""
    sources = (PROJECT / "schedules/views").glob("*.py")
    read = re.compile(r'(?:GET|POST)\.get(?:list)?\("(\w+)"')
    return {name for source in sources for name in read.findall(source.read_text())} | {*RUNS, *JOBS, *EVENTS}


def send(client: Client, request: Hostile) -> int:
    """Send a request and take back what it did, so that each meets the same site."""
    client.raise_request_exception = False
    with transaction.atomic():
        answer = client.generic(
            request.method, request.path, request.body, request.content_type, headers=request.headers
        )
        b"".join(answer)
        transaction.set_rollback(True)
    return int(answer.status_code)


@pytest.mark.timeout(6000)
def test_no_request_to_mcp_breaks_it_or_gets_stuck(hers: Belongings, caplog: pytest.LogCaptureFixture):
    random, tools = Random(SEED), {tool["name"]: tool for tool in recorded()["tools"]}
    token = issue_token(hers.owner, name="laptop").value.text
    requests = [to_mcp(random, token, tools) for _ in range(TO_MCP)]
    caplog.clear()
    statuses: list[int] = []

    async def send_all(batch: list[Hostile]) -> None:
        async with running(build_application()) as app:
            for request in batch:
                statuses.append(await status_of(app, request))

    for start in range(0, TO_MCP, BATCH):
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
    # Most get past the door: else nothing behind it would be tried.
    assert statuses.count(200) > TO_MCP // 3


async def status_of(app: Callable[..., Awaitable[None]], request: Hostile) -> int:
    """Put a request to an ASGI app by hand, which takes what no client library would send; 0 is no answer in time."""
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
        async with asyncio.timeout(LONGEST_SECONDS):
            await app(scope, receive, answer)
    except TimeoutError:
        return 0
    return next((int(message["status"]) for message in answered if "status" in message), 0)
