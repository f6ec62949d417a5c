"""/mcp in the web process and in mcp_serve --http: responses, checks and shutdown."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import httpx2
import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cronty_site.asgi import build_application
from schedules import clock
from schedules.mcp.http import _transport_security, build_http_app
from schedules.mcp.subscriptions import end_streams
from schedules.models import Job, Token
from schedules.services import issue_token, revoke_token
from tests.clusters import PROJECT
from tests.factories import JobFactory
from tests.mcp.agents import mode_of
from tests.mcp.over_http import ADDRESS, OverHttp, browser, modern_call, running
from tests.mcp.processes import Site, free_port, serving, wait_for_port
from tests.waiting import PATIENCE

DOORS = pytest.mark.parametrize("build", [build_application, build_http_app], ids=["web", "alone"])


@pytest.fixture
def token(owner) -> str:
    return issue_token(owner, name="laptop").value.text


def post(token: str | None, /, build=build_application, **request):
    """Send one raw request and return the response."""

    async def send():
        async with running(build()) as app, browser(app, token) as http:
            return await http.request(**{"method": "POST", "url": ADDRESS, **request})

    return async_to_sync(send)()


def test_tool_is_called_over_http_in_both_eras(token, owner, era):
    job = JobFactory(owner=owner)

    assert OverHttp(era, token).call("job_status", job_id=job.public_id)["name"] == job.name


def test_without_a_token_the_answer_is_401(db):
    answer = post(None, **modern_call("list_jobs"))

    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_token"
    assert "needs an access token" in answer.json()["error_description"]
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("state", ["unknown", "expired", "revoked"])
def test_refused_token_is_named_as_what_it_is_with_the_way_to_a_new_one(owner, settings, state):
    issued = issue_token(owner, name="laptop").value
    text = issued.text
    match state:
        case "unknown":
            # The right prefix alone says nothing.
            text = text[:-1] + ("a" if text[-1] != "a" else "b")
        case "expired":
            Token.objects.update(expires_at=clock.now() - timedelta(seconds=1))
        case "revoked":
            revoke_token(owner, issued.token.pk)

    answer = post(text, **modern_call("list_jobs"))

    words = answer.json()["error_description"]
    assert answer.status_code == 401
    assert [word for word in ("unknown", "expired", "revoked") if word in words] == [state]
    assert f"{settings.CRONTY_URL}/connect/" in words
    assert words in answer.headers["www-authenticate"]
    assert "laptop" not in answer.text


@DOORS
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_other_methods_are_not_allowed(token, build, method):
    answer = post(token, build, method=method)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_separate_server_serves_only_mcp(token):
    for path in ("/", "/mcp/", "/mcp-docs", "/healthz"):
        for method in ("GET", "POST"):
            url = f"http://127.0.0.1:8000{path}"
            assert post(token, build_http_app, url=url, method=method).status_code == 404
    assert post(token, build_http_app, **modern_call("list_jobs")).status_code == 200


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("Origin", "http://localhost:3000", 200),
        ("Host", "localhost:9999", 200),
        ("Host", "LocalHost:9999", 200),
    ],
)
def test_host_and_origin_are_checked_against_the_settings(token, header, value, status):
    request = modern_call("list_jobs")
    request["headers"][header] = value

    assert post(token, **request).status_code == status


def test_public_host_is_allowed_and_patterns_turn_the_check_off():
    exact, pattern = _transport_security(["cronty.example"]), _transport_security([".example"])

    assert exact.enable_dns_rebinding_protection
    assert "cronty.example:*" in exact.allowed_hosts
    assert "https://cronty.example" in exact.allowed_origins
    assert not pattern.enable_dns_rebinding_protection


def test_body_of_300_kilobytes_is_refused(token):
    request = modern_call("schedule", {"at": "in 1 hour", "prompt": "x" * 300_000})

    answer = post(token, **request)

    assert answer.status_code == 413
    assert "too large: at most" in answer.json()["error"]["message"]
    assert not Job.objects.exists()


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[" * 100_000])
def test_malformed_request_is_refused(token, body):
    answer = post(
        token, content=body, headers=modern_call("x")["headers"] | {"Content-Type": "application/json"}
    )

    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text
    assert str(PROJECT) not in answer.text


def test_unknown_methods_and_invalid_params_are_protocol_errors(token):
    unknown = modern_call("x")
    unknown["json"]["method"] = unknown["headers"]["Mcp-Method"] = "nope/nope"
    del unknown["headers"]["Mcp-Name"]
    wrong = modern_call("list_jobs")
    wrong["json"]["params"]["arguments"] = [1]

    assert '"code":-32601' in post(token, **unknown).text.replace(" ", "")
    assert '"code":-32602' in post(token, **wrong).text.replace(" ", "")


@pytest.mark.parametrize("number", [{"id": 1}, {}], ids=["request", "notification"])
def test_subscription_without_resources_logs_no_traceback(token, number, caplog):
    request = modern_call("x")
    request["json"] = {"jsonrpc": "2.0", "method": "subscriptions/listen", "params": {}, **number}
    request["headers"] |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    del request["headers"]["Mcp-Name"]

    answer = post(token, **request)

    assert answer.status_code < 500
    assert not [record for record in caplog.records if record.exc_info]


@asynccontextmanager
async def connected(site, address, era="modern"):
    async with (
        httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {site.token}"}, timeout=PATIENCE, trust_env=False
        ) as http,
        Client(streamable_http_client(address, http_client=http), **mode_of(era)) as client,
    ):
        yield client


# A server that waits longer for open responses than the test waits for the server.
PATIENT_SERVER = """
import django
django.setup()
from cronty_site.startup import run_command
from cronty_site.serving import server
server.STOP_SECONDS = 600
run_command()
"""


@pytest.mark.verify
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        pytest.param(["web", f"--with-parent={os.getpid()}"], signal.SIGTERM, -signal.SIGTERM, id="web"),
        pytest.param(["mcp_serve", "--http"], signal.SIGINT, 0, id="alone"),
    ],
)
def test_shutdown_ends_an_open_subscription_cleanly_and_immediately(site, command, number, code):
    async def work(process, address):
        async with (
            connected(site, address) as client,
            # The client raises an error if the stream breaks off.
            client.listen(resource_subscriptions=["agenda://today"]) as changes,
        ):
            process.send_signal(number)
            heard = [change async for change in changes]
            return heard, await asyncio.to_thread(process.wait, PATIENCE)

    # `web` has to be a child of the process that it is told to end with.
    started = site.with_fresh_python if command[0] == "web" else site
    port = free_port()
    process = started.start_python("-c", PATIENT_SERVER, *command, "--port", str(port))
    try:
        wait_for_port(process, port)
        heard, ended_as = asyncio.run(work(process, f"http://127.0.0.1:{port}/mcp"))
    finally:
        process.kill()
        _, words = process.communicate()

    assert (heard, ended_as) == ([], code)
    assert b"Traceback" not in words
    # The server logs this word if it gave up waiting for responses.
    assert b"Cancel" not in words


def test_subscription_opened_during_shutdown_ends_immediately(token):
    request = modern_call("x")
    request["headers"]["Mcp-Method"] = request["json"]["method"] = "subscriptions/listen"
    del request["headers"]["Mcp-Name"]
    wanted = {"resourceSubscriptions": ["agenda://today"]}
    request["json"]["params"] = {"notifications": wanted, "_meta": request["json"]["params"]["_meta"]}

    async def send():
        async with running(build_http_app()) as app, browser(app, token) as http:
            end_streams()
            return await http.post(**request)

    answer = async_to_sync(send)()

    assert answer.status_code == 200
    assert "io.modelcontextprotocol/subscriptionId" in answer.text


@contextmanager
def announced(site, *arguments):
    """Run `mcp_serve --http`; yield the process and the address that it prints."""
    process = site.start("mcp_serve", "--http", "--port", str(free_port()), *arguments)
    try:
        address = process.stdout.readline().decode().removeprefix("Serving MCP at ").strip()
        # It prints the address before it listens there.
        parts = urlsplit(address)
        wait_for_port(process, parts.port, parts.hostname)
        yield process, address
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.parametrize(("host", "name"), [("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "127.0.0.1")])  # noqa: S104
def test_printed_address_is_an_allowed_host_but_the_wildcard_address_is_not(site, host, name):
    with (
        announced(site, "--host", host) as (_, address),
        httpx2.Client(
            headers={"Authorization": f"Bearer {site.token}"}, timeout=PATIENCE, trust_env=False
        ) as http,
    ):
        port = urlsplit(address).port
        answer = http.post(**{**modern_call("list_jobs"), "url": address})
        http.headers["Host"] = f"0.0.0.0:{port}"
        refused = http.post(**{**modern_call("list_jobs"), "url": address})

    assert address == f"http://{name}:{port}/mcp"
    assert (answer.status_code, refused.status_code) == (200, 421)


def test_server_starts_without_its_database_and_warns_and_reports_the_outage_to_clients(tmp_path):
    with (
        announced(Site(tmp_path, "")) as (process, address),
        httpx2.Client(timeout=PATIENCE, trust_env=False) as http,
    ):
        request = modern_call("list_jobs")
        request["headers"]["Authorization"] = f"Bearer cronty_{'0' * 8}_{'a' * 32}"
        answer = http.post(**{**request, "url": address})
        process.terminate()
        _, words = process.communicate()

    assert address.endswith("/mcp")
    assert words.startswith(b"The database does not answer: no such table")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.text == "The database does not answer just now: try again in a moment.\n"


@pytest.mark.parametrize(
    ("arguments", "way_out"),
    [
        (["--user", "olga"], "--user: not with --http; `issue_token --user NAME`"),
        (["--read-only"], "--read-only: not with --http; `issue_token --scopes read`"),
    ],
)
def test_options_that_a_token_decides_are_refused_over_http(arguments, way_out):
    with pytest.raises(CommandError, match=way_out):
        call_command("mcp_serve", "--http", *arguments)


def test_server_survives_clients_that_disconnect_during_a_call(site):
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

        with httpx2.Client(
            headers={"Authorization": f"Bearer {site.token}"}, timeout=PATIENCE, trust_env=False
        ) as http:
            answer = http.post(**{**modern_call("get_current_time"), "url": address})

        assert answer.status_code == 200
        assert process.poll() is None
