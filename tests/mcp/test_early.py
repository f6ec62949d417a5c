"""Answers that are given before the server is there."""

import json
import subprocess
import sys

import pytest

from schedules.mcp.early import RECORDING, Recording, _are_default
from tests.mcp import early_answers
from tests.mcp.early_answers import STATELESS_PARAMS, VERSIONS, hello, request
from tests.mcp.processes import MANAGE, ROOT, without_settings

RECORDED = json.loads(RECORDING.read_text(encoding="utf-8"))
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
# A process that answers early, and then only copies what it reads.
WITHOUT_SERVER = """
import sys
before = set(sys.modules)
from schedules.mcp.early import answer_early
answer_early(["--user", "olga"])
sys.stderr.buffer.write(sys.stdin.buffer.read())
foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(sorted(foreign), file=sys.stderr)
"""


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def without_server(data: bytes) -> tuple[list[dict], list[str]]:
    """Return the early answers, and the lines that a server would have read."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER], input=data, cwd=ROOT, capture_output=True, check=True
    )
    *received, foreign = done.stderr.decode(errors="surrogateescape").splitlines()
    assert foreign == "['schedules']"
    return [json.loads(line) for line in done.stdout.splitlines()], received


def test_recording_is_what_the_server_answers(site):
    assert early_answers.from_server(site) == RECORDED, "`make contract` records the answers anew"


def test_tools_are_listed_before_anything_else_is_imported():
    answers, received = without_server(
        lines(request(1, "initialize", hello(VERSIONS[0])), INITIALIZED, request("two", "tools/list", {}))
    )

    assert answers == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {**RECORDED["initialize"], "protocolVersion": VERSIONS[0]},
        },
        {"jsonrpc": "2.0", "id": "two", "result": RECORDED["tools/list"]},
    ]
    assert [json.loads(line)["method"] for line in received] == ["initialize", INITIALIZED["method"]]
    assert json.loads(received[0])["id"] == "answered-early"


def test_stateless_client_is_answered_without_a_handshake():
    answers, _ = without_server(
        lines(request(1, "server/discover", STATELESS_PARAMS), request(2, "tools/list", STATELESS_PARAMS))
    )

    assert [answer["result"] for answer in answers] == [
        RECORDED["stateless server/discover"],
        RECORDED["stateless tools/list"],
    ]


def test_everything_after_the_first_other_request_goes_to_the_server():
    call = request(2, "tools/call", {"name": "list_jobs", "arguments": {}})
    long = request(3, "tools/call", {"name": "list_jobs", "arguments": {"query": "x" * 300_000}})
    rest = [call, long, request(4, "tools/list", {})]

    answers, received = without_server(lines(request(1, "initialize", hello(VERSIONS[-1])), *rest))

    assert [answer["id"] for answer in answers] == [1]
    assert [json.loads(line) for line in received[1:]] == rest


@pytest.mark.parametrize(
    "line",
    [b"[" * 60_000, b"7", b"\xff", b"x" * 200_000],
    ids=lambda line: repr(line[:3]),
)
def test_malformed_line_goes_to_the_server(line):
    answers, received = without_server(line + b"\n")

    assert (answers, "".join(received).encode(errors="surrogateescape")) == ([], line)


@pytest.mark.parametrize(
    "message",
    [
        request(True, "initialize", hello(VERSIONS[-1])),
        request(1, "initialize", hello("1999-01-01")),
        request(1, "initialize", {"protocolVersion": VERSIONS[-1]}),
        {**request(1, "initialize", {}), "params": [1]},
        {**request(1, "initialize", hello(VERSIONS[-1])), "jsonrpc": "1.0"},
        request(1, "tools/list", {}),
        request(1, "server/discover", {}),
        request(1, "tools/list", {**STATELESS_PARAMS, "cursor": "2"}),
        request(1, "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
    ],
)
def test_server_answers_what_is_not_recorded(message):
    assert Recording(RECORDED).answer(message) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], True),
        (["--user", "olga", "--name=laptop"], True),
        (["--read-only"], False),
        (["--user", "olga", "--tools", "jobs"], False),
        (["--http"], False),
        (["--help"], False),
    ],
)
def test_only_the_default_list_of_tools_is_recorded(arguments, expected):
    assert _are_default(arguments) is expected


def test_call_that_is_sent_at_once_is_answered_by_the_server(site):
    call = request(3, "tools/call", {"name": "get_current_time", "arguments": {}})
    process = subprocess.run(
        [sys.executable, MANAGE, "mcp_serve", "--user", "olga"],
        env=without_settings(site.environment),
        input=lines(
            request(1, "initialize", hello(VERSIONS[-1])), INITIALIZED, request(2, "tools/list", {}), call
        ),
        capture_output=True,
        check=True,
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]

    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert not answers[2]["result"]["isError"]
