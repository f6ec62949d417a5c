"""/mcp in the web process and in mcp_serve --http: what the wire answers, and how it stops."""

import asyncio
import signal
import socket
import time
from contextlib import AsyncExitStack, suppress
from urllib.parse import urlsplit

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cronty_site.asgi import build_application
from schedules.models import Job
from schedules.services import issue_token
from schedules.tools.server import _transport_security
from tests.clusters import PROJECT
from tests.factories import JobFactory
from tests.tools.agents import InMemory, answer_of, mode_of
from tests.tools.over_http import ADDRESS, OverHttp, browser, modern_call, running
from tests.tools.processes import serving


@pytest.fixture
def token(owner) -> str:
    return issue_token(owner, name="laptop").value.text


def post(token: str | None, /, **request):
    """Send one request by hand and return the answer."""

    async def send():
        async with running(build_application()) as app, browser(app, token) as http:
            return await http.request(**{"method": "POST", "url": ADDRESS, **request})

    return async_to_sync(send)()


def test_a_tool_is_called_over_http_in_both_eras(token, owner, era):
    job = JobFactory(owner=owner)

    assert OverHttp(era, token).call("job_status", job_id=job.public_id)["name"] == job.name


def test_without_a_token_the_answer_is_401(db):
    answer = post(None, **modern_call("list_jobs"))

    assert answer.status_code == 401
    assert answer.json() == {"error": "invalid_token", "error_description": "Authentication required"}
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_other_methods_are_not_allowed(token, method):
    answer = post(token, method=method)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_only_the_exact_path_is_the_agents_door(token):
    for path in ("/mcp/", "/mcp-docs", "/mcp/x"):
        assert post(token, url=f"http://127.0.0.1:8000{path}", method="GET").status_code in {302, 404}
    assert post(None, url="http://127.0.0.1:8000/healthz", method="GET").text == "ok\n"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("Origin", "http://localhost:3000", 200),
        ("Host", "localhost:9999", 200),
    ],
)
def test_host_and_origin_are_checked_against_the_settings(token, header, value, status):
    request = modern_call("list_jobs")
    request["headers"][header] = value

    assert post(token, **request).status_code == status


def test_the_public_address_is_allowed_and_patterns_switch_the_check_off():
    exact, pattern = _transport_security(["cronty.example"]), _transport_security([".example"])

    assert exact.enable_dns_rebinding_protection
    assert "cronty.example:*" in exact.allowed_hosts
    assert "https://cronty.example" in exact.allowed_origins
    assert not pattern.enable_dns_rebinding_protection


def test_a_body_of_300_kilobytes_is_refused(token):
    request = modern_call("schedule", {"at": "in 1 hour", "prompt": "x" * 300_000})

    answer = post(token, **request)

    assert answer.status_code == 413
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"jsonrpc": "1.0"}', b"[" * 100_000]
)
def test_what_is_no_request_is_refused_plainly(token, body):
    answer = post(
        token, content=body, headers=modern_call("x")["headers"] | {"Content-Type": "application/json"}
    )

    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text
    assert str(PROJECT) not in answer.text


def test_unknown_methods_and_params_that_are_no_object_are_protocol_errors(token):
    unknown = modern_call("x")
    unknown["json"]["method"] = unknown["headers"]["Mcp-Method"] = "nope/nope"
    del unknown["headers"]["Mcp-Name"]
    wrong = modern_call("list_jobs")
    wrong["json"]["params"]["arguments"] = [1]

    assert '"code":-32601' in post(token, **unknown).text.replace(" ", "")
    assert '"code":-32602' in post(token, **wrong).text.replace(" ", "")


@pytest.mark.parametrize("number", [{"id": 1}, {}], ids=["request", "notification"])
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_subscription_to_nothing_in_particular_fills_no_log(token, number, version, caplog):
    request = modern_call("x")
    request["json"] = {"jsonrpc": "2.0", "method": "subscriptions/listen", "params": {}, **number}
    request["headers"] |= {"MCP-Protocol-Version": version, "Mcp-Method": "subscriptions/listen"}
    del request["headers"]["Mcp-Name"]

    answer = post(token, **request)

    assert answer.status_code < 500
    assert not [record for record in caplog.records if record.exc_info]


def test_an_unknown_tool_is_a_tool_error(token):
    assert "Unknown tool: nope" in post(token, **modern_call("nope")).text


def test_the_separate_server_serves_and_stops_in_time_with_an_open_subscription(site, era):
    done = []

    async def work(process, address):
        headers = {"Authorization": f"Bearer {site.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            Client(streamable_http_client(address, http_client=http), **mode_of(era)) as client,
            AsyncExitStack() as streams,
        ):
            done.append(answer_of(await client.call_tool("schedule", {"at": "in 1 hour", "prompt": era})))
            if era == "modern":
                await streams.enter_async_context(client.listen(resource_subscriptions=["agenda://today"]))
            process.send_signal(signal.SIGTERM)
            done.append(await asyncio.to_thread(process.wait, 15))

    with serving(site, "--tools", "prompts") as (process, address):
        begun = time.monotonic()
        # The stream breaks off when the server goes.
        with suppress(Exception):
            asyncio.run(work(process, address))

    assert done[0].startswith("Scheduled task #")
    assert done[1] in {0, -signal.SIGTERM}
    assert time.monotonic() - begun < 15


def test_a_client_that_leaves_in_the_middle_of_a_call_harms_nobody(site):
    with serving(site) as (process, address):
        parts = urlsplit(address)
        for cut in (20, 200, 400):
            request = httpx2.Request("POST", **{**modern_call("upcoming"), "url": address})
            body = request.read()
            head = f"POST /mcp HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {site.token}\r\n"
            head += "".join(
                f"{name}: {value}\r\n" for name, value in modern_call("upcoming")["headers"].items()
            )
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            with socket.create_connection((parts.hostname, parts.port)) as wire:
                wire.sendall((head.encode() + body)[:cut] if cut < 400 else head.encode() + body)

        with httpx2.Client(headers={"Authorization": f"Bearer {site.token}"}, trust_env=False) as http:
            answer = http.post(**{**modern_call("get_current_time"), "url": address})

        assert answer.status_code == 200
        assert process.poll() is None


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server to lose")
@pytest.mark.django_db(transaction=True)
def test_a_call_works_after_the_database_was_restarted(caller, owner):
    agent = InMemory("modern")
    agent.call("list_jobs")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        mine = cursor.fetchone()[0]
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [mine])
    other.close()

    assert agent.call("list_jobs")["total"] == 0
