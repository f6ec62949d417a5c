"""The terminal of a person whose Cronty is on another machine."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from cronty_site.terminal.elsewhere.local_actions import read_files
from cronty_site.terminal.elsewhere.remote import remote_server, run_remotely
from cronty_site.terminal.elsewhere.server import Server
from cronty_site.terminal.failures import Failure
from tests.clusters import PROJECT
from tests.documented import blocks
from tests.sink import Answer, Sink


def streamed(*events: dict) -> Answer:
    return Answer(body="".join(json.dumps(event) + "\n" for event in events).encode())


@pytest.fixture
def sink():
    with Sink() as server:
        yield server


@pytest.fixture
def cronty_there(tmp_path, sink):
    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        known = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
        address = {"CRONTY_URL": sink.url(""), "CRONTY_TOKEN": "cronty_x"}
        return subprocess.run(
            [sys.executable, "-m", "cronty_site.terminal", *words],
            env=known | address | variables,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_command_line_is_sent_and_its_output_printed(cronty_there, sink, tmp_path):
    sink.default = streamed({"out": "one\n"}, {"err": "two\n"}, {"exit": 4})

    ended = cronty_there("run", "Backup", "--wait")

    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "one\n", "two\n")
    [request] = sink.requests
    assert (request.path, request.headers["authorization"]) == ("/api/v1/terminal", "Bearer cronty_x")
    sent = json.loads(request.body)
    assert (sent["words"], sent["out_is_terminal"]) == (["run", "Backup", "--wait"], False)
    # Nothing was created on this machine.
    assert list(tmp_path.iterdir()) == []


def test_commands_of_the_page_are_sent(cronty_there, sink):
    sink.default = streamed({"exit": 0})
    exported, *lines = blocks("docs/reference/terminal.md", "bash")[0].text.strip().splitlines()
    names = [word.partition("=")[0] for word in exported.split()[1:]]

    for line in lines:
        assert cronty_there(*shlex.split(line)[1:]).returncode == 0

    assert names == ["CRONTY_URL", "CRONTY_TOKEN"]
    assert [json.loads(each.body)["words"] for each in sink.requests] == [
        shlex.split(line)[1:] for line in lines
    ]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(status=503), 5, "503"),
        (Answer(manner="reset"), 5, "is not reached"),
        (streamed({"out": "half\n"}), 5, "broke off"),
        (Answer(body=b"<html>"), 5, "does not answer like Cronty"),
        (
            Answer(
                status=403,
                body=b'{"code": "scope_missing", "detail": "This call needs a token."}',
                headers={"Content-Type": "application/problem+json"},
            ),
            1,
            "This call needs a token.",
        ),
    ],
)
def test_server_that_cannot_is_a_failure_of_its_own(cronty_there, sink, answer, code, words):
    sink.default = answer

    ended = cronty_there("jobs")

    assert ended.returncode == code
    assert words in ended.stderr


def test_file_is_read_here_and_only_if_the_command_names_it(cronty_there, sink, tmp_path):
    (tmp_path / "jobs.yaml").write_text("jobs: {}\n")
    ask = {"action": "read_files", "arguments": ["jobs.yaml"], "values": {"most": 1000}}
    sink.then(streamed({"ask": ask, "digest": "d1"}), streamed({"exit": 0}))

    assert cronty_there("apply", "jobs.yaml").returncode == 0
    assert json.loads(sink.requests[1].body)["answers"] == [
        {"to": "d1", "value": [["jobs.yaml", "jobs: {}\n"]]}
    ]

    (tmp_path / "id_ed25519").write_text("private")
    for action in ("read_text", "read_files", "write_text"):
        sink.reset()
        sink.default = streamed(
            {"ask": {"action": action, "arguments": ["id_ed25519"], "values": {"most": 9}}, "digest": ""}
        )
        refused = cronty_there("apply", "jobs.yaml")
        assert (refused.returncode, len(sink.requests)) == (1, 1)
    assert (tmp_path / "id_ed25519").read_text() == "private"


def test_server_deletes_no_file_that_was_not_edited(cronty_there, sink, tmp_path):
    (tmp_path / "kept").write_text("x")
    told = {"action": "discard", "arguments": [str(tmp_path / "kept")]}
    sink.default = streamed({"do": told}, {"exit": 0})

    cronty_there("edit", "Backup")

    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("variables", "is_remote"),
    [
        ({"CRONTY_URL": "https://a.example", "CRONTY_TOKEN": "t"}, True),
        ({"CRONTY_URL": "https://a.example"}, False),
        ({"CRONTY_TOKEN": "t"}, False),
        ({"CRONTY_URL": "https://a.example", "CRONTY_TOKEN": "t", "CRONTY_REMOTE": "off"}, False),
        ({}, False),
    ],
)
def test_terminal_is_remote_with_an_address_and_a_token(monkeypatch, variables, is_remote):
    for name in ("CRONTY_URL", "CRONTY_TOKEN", "CRONTY_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert (remote_server() is not None) == is_remote


def test_endless_questions_end(sink):
    sink.default = streamed({"ask": {"action": "source_of", "arguments": ["-"], "values": {}}, "digest": ""})

    with pytest.raises(Failure, match="again and again"):
        run_remotely(Server(sink.url(""), "t"), ["apply", "-"])


def test_empty_path_is_no_folder():
    with pytest.raises(Failure, match="Name a file"):
        read_files("", most=1000)
