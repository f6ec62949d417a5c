"""mcp_serve over standard input and output, in a separate process."""

import asyncio
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from mcp import Client
from mcp.client.stdio import stdio_client

from schedules.mcp import stdio
from schedules.mcp.stdio import MAX_LINE_LENGTH
from schedules.services.installation.command_words import how_to_run
from tests.factories import UserFactory
from tests.mcp.over_http import modern_call
from tests.mcp.processes import ROOT, Site
from tests.waiting import PATIENCE

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {**PING, "id": 2, "method": "tools/call", "params": {"name": "list_jobs", "arguments": {}}}
A_JOB = {
    "name": "ping",
    "task": "webhook",
    "trigger_type": "cron",
    "trigger_config": {"expression": "@daily"},
    "kwargs": {"url": "https://example.org"},
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

# A server that waits for open calls at its end, on a slow machine too, for longer than any test waits for the server.
PATIENT_SERVER = """
import django
django.setup()
from django.core.management import call_command
from schedules.mcp import stdio
stdio.DRAIN_SECONDS = 600
call_command("mcp_serve")
"""


@pytest.fixture(autouse=True)
def nothing_left(site: Site) -> Iterator[None]:
    with site.leaving_nothing():
        yield


def talk(site: Site, work, *arguments: str):
    async def conversation():
        async with Client(stdio_client(site.stdio(*arguments))) as client:
            return await work(client)

    return asyncio.run(conversation())


def test_families_scopes_and_name_come_from_the_command_line(site):
    async def work(client):
        return {tool.name for tool in (await client.list_tools()).tools}

    names = talk(site, work, "--tools", "jobs,more", "--read-only")

    assert names == {
        "list_jobs",
        "job_status",
        "preview_schedule",
        "upcoming",
        "list_runs",
        "list_changes",
        "why",
        "get_preferences",
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_server_immediately(site, number):
    process = site.start("mcp_serve")
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    assert b"serverInfo" in process.stdout.readline()

    process.send_signal(number)

    assert process.wait(PATIENCE) == -number
    process.communicate()


def answers_to(site: Site, *lines: bytes) -> list[dict[str, Any]]:
    """Initialize, send the lines and a ping, and return all answers that precede that of the ping."""
    process = site.start("mcp_serve")
    sent = [json.dumps(HELLO).encode(), *lines, json.dumps({**PING, "id": 99}).encode()]
    process.stdin.write(b"\n".join(sent) + b"\n")
    process.stdin.flush()

    answers = [json.loads(process.stdout.readline())]
    while answers[-1].get("id") != 99:
        answers.append(json.loads(process.stdout.readline()))
    process.communicate(timeout=PATIENCE)

    assert "result" in answers[-1]
    assert process.returncode == 0
    return [answer for answer in answers if answer["id"] not in (1, 99)]


def test_malformed_and_overlong_lines_are_answered_and_the_server_continues(site):
    unknown = b'{"jsonrpc": "2.0", "id": 7, "method": "nope/nope"}'
    malformed = b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": "job_status"}'
    no_answer = b'{"jsonrpc": "2.0", "id": 9, "result": "an answer to what nobody asked"}'
    odd_id = b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}'

    too_long = b"x" * (MAX_LINE_LENGTH + 10)

    answers = answers_to(
        site, b"not json", b"", b"[]", b"\xff\xfe", unknown, malformed, no_answer, odd_id, too_long
    )

    refusals = [(answer["id"], answer["error"]["code"]) for answer in answers]
    assert sorted(refusals, key=str) == [
        (7, -32601),
        (8, -32600),
        (None, -32600),
        (None, -32600),
        (None, -32600),
        (None, -32700),
        (None, -32700),
        (None, -32700),
    ]
    assert "Traceback" not in str(answers)


def test_stray_prints_do_not_reach_the_wire(site):
    code = (
        "import django; django.setup()\n"
        "from django.core.management import call_command\n"
        "from schedules.mcp import registration\n"
        "registration.too_many_calls = lambda caller: print('stray', flush=True)\n"
        "call_command('mcp_serve')"
    )
    process = site.start_python("-c", code)
    process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in (HELLO, CALL)))
    process.stdin.flush()

    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    _, err = process.communicate(timeout=PATIENCE)

    assert "jobs" in answers[1]["result"]["structuredContent"]
    assert b"stray" in err


def test_server_ends_when_its_client_disconnects(site):
    process = site.start("mcp_serve")
    asked = [HELLO, *({**PING, "id": number, "method": "tools/list"} for number in range(2, 32))]
    process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in asked))
    process.stdin.flush()
    assert b"serverInfo" in process.stdout.readline()

    process.stdout.close()
    process.stdin.close()

    assert process.wait(PATIENCE) == 0
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_open_subscription_does_not_delay_the_shutdown(site):
    listen = modern_call("x")["json"] | {"method": "subscriptions/listen"}
    listen["params"] = {
        "notifications": {"resourceSubscriptions": ["agenda://today"]},
        "_meta": listen["params"]["_meta"],
    }
    process = site.start_python("-c", PATIENT_SERVER)
    process.stdin.write(json.dumps(listen).encode() + b"\n")
    process.stdin.flush()
    acknowledged = json.loads(process.stdout.readline())

    out, err = process.communicate(timeout=PATIENCE)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert process.returncode == 0
    [answer] = map(json.loads, out.splitlines())
    assert answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == answer["id"] == 1
    assert b"Traceback" not in err


def test_open_calls_are_answered_after_the_end_of_input(site, era, tmp_path):
    comes_from = {"legacy": "pipe", "modern": "file"}[era]
    call = CALL if era == "legacy" else modern_call("list_jobs")["json"]
    asked = [*([HELLO] if era == "legacy" else []), *({**call, "id": number} for number in range(2, 32))]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in asked)

    if comes_from == "pipe":
        process = site.start_python("-c", PATIENT_SERVER)
        out, err = process.communicate(text, PATIENCE)
    else:
        (tmp_path / "lines").write_bytes(text)
        with (tmp_path / "lines").open("rb") as lines:
            process = site.start_python("-c", PATIENT_SERVER, stdin=lines)
            out, err = process.communicate(timeout=PATIENCE)

    # Only protocol messages are printed to standard output.
    assert b"No worker is running" in err
    answers = [json.loads(line) for line in out.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [line["id"] for line in asked]
    assert [answer for answer in answers if "result" not in answer] == []
    assert process.returncode == 0


def end_of(monkeypatch, *messages: dict[str, Any], answer: bytes = b"") -> bytes:
    """Send these messages and end the input; return what the transport reads, up to the end."""
    monkeypatch.setattr("anyio.from_thread.run_sync", lambda end_streams: None)
    output = stdio.Output(io.BytesIO())
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    source = stdio.Input(io.BytesIO(lines), output)
    read = b"".join(source.read1() for _ in messages)
    if answer:
        output.write(answer)
    assert source.read1() == b""
    return read


def test_answered_or_cancelled_call_does_not_delay_the_shutdown(monkeypatch):
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 2 * PATIENCE)
    withdrawn = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}}

    assert end_of(monkeypatch, CALL | {"id": 7}, withdrawn).count(b"\n") == 2
    assert end_of(monkeypatch, CALL, answer=b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
    assert end_of(monkeypatch, CALL | {"id": "a"}, answer=b'{"jsonrpc":"2.0","id":"a","error":{}}\n')


def test_call_that_never_ends_delays_the_shutdown_only_briefly(monkeypatch):
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 0.01)

    assert end_of(monkeypatch, CALL)


def test_command_names_the_option_that_is_missing_or_wrong(db):
    with pytest.raises(CommandError, match="--user NAME"):
        call_command("mcp_serve")
    UserFactory(username="one", is_superuser=True)
    UserFactory(username="two", is_superuser=True)
    with pytest.raises(CommandError, match="--user NAME"):
        call_command("mcp_serve")
    with pytest.raises(CommandError, match="no active user called 'nobody'"):
        call_command("mcp_serve", user="nobody")
    with pytest.raises(CommandError, match="'everything' is not a tool family"):
        call_command("mcp_serve", tools="everything")


def test_unprepared_folder_is_reported_with_the_fix(tmp_path):
    process = Site(tmp_path, token="").start("mcp_serve", "--user", "olga")

    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert b"There is no database " in err
    assert f"run `{how_to_run('up')}` first.".encode() in err
    assert b"Traceback" not in err


@pytest.mark.parametrize("name", ["", "x" * 151, "\u202elaptop"])
def test_invalid_agent_name_is_refused(name):
    with pytest.raises(CommandError, match="--name: give it 1 to 150 printable characters"):
        call_command("mcp_serve", name=name)


def test_importing_the_pages_on_sqlite_imports_neither_the_sdk_nor_psycopg(site):
    code = (
        "import django, sys; django.setup(); import cronty_site.asgi, cronty_site.urls;"
        "sys.exit(not {'mcp', 'psycopg'}.isdisjoint(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", code], env=site.environment, cwd=ROOT, check=False)

    assert done.returncode == 0
