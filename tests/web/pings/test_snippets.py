"""The lines to paste for other places, executed as those places do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from schedules.web.snippets import ping_snippets
from tests.documented import blocks
from tests.sink import Answer, Sink

UUID = "3b2f0c9e-0000-4000-8000-000000000001"
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


@pytest.fixture
def sink():
    with Sink(Answer(body=b"OK", headers={"Content-Type": "text/plain"})) as server:
        yield server


@pytest.fixture
def snippets(sink) -> dict[str, str]:
    base = f"{sink.url('/ping/')}"
    return {each.key: each.text for each in ping_snippets(f"{base}{UUID}", f"{base}a-ping-key/backup")}


@pytest.fixture
def program(tmp_path: Path):
    """Make a program that prints and ends with a code, and replace the one of the lines by it."""

    def make(text: str, code: int) -> str:
        file = tmp_path / "backup"
        file.write_text(f"#!/bin/sh\necho 12 files\nexit {code}\n")
        file.chmod(0o755)
        return text.replace("/usr/local/bin/backup", str(file))

    return make


def shell(text: str, **variables: str) -> int:
    return subprocess.run(["/bin/sh", "-c", text], env=os.environ | variables, check=False).returncode


def paths(sink: Sink) -> list[str]:
    return [request.path.removeprefix(f"/ping/{UUID}").partition("?")[0] for request in sink.requests]


@needs_curl
@pytest.mark.parametrize("code", [0, 3])
def test_line_for_a_crontab_reports_the_exit_code(snippets, sink, program, code):
    schedule, line = snippets["crontab"].split(" /", 1)
    assert schedule == "17 3 * * *"
    # Crontabs read a percent sign as the end of the command.
    assert "%" not in line
    assert (
        line.partition(";")[2].rpartition("/ping/")[0].rpartition("http")[0]
        in blocks("docs/how-to/heartbeats.md", "sh")[1].text
    )

    shell(program(f"/{line}", code))

    assert paths(sink) == [f"/{code}"]


@needs_curl
def test_shell_script_reports_start_end_output_and_has_the_exit_code(snippets, sink, program):
    assert shell(program(snippets["shell"], 4)) == 4

    assert paths(sink) == ["/start", "/4"]
    assert sink.requests[1].body == b"12 files"
    assert len({request.path.partition("?rid=")[2] for request in sink.requests}) == 1


@needs_curl
def test_shell_script_survives_long_output(snippets, sink, tmp_path):
    file = tmp_path / "backup"
    file.write_text(f"#!{sys.executable}\nprint('x' * 500_000)\n")
    file.chmod(0o755)

    assert shell(snippets["shell"].replace("/usr/local/bin/backup", str(file))) == 0
    assert len(sink.requests[1].body) == 100_000


@needs_curl
@pytest.mark.parametrize(
    ("variables", "end"),
    [
        ({"EXIT_CODE": "exited", "EXIT_STATUS": "0"}, "/0"),
        ({"EXIT_CODE": "exited", "EXIT_STATUS": "7"}, "/7"),
        ({"EXIT_CODE": "killed", "EXIT_STATUS": "TERM"}, "/fail"),
        ({}, "/fail"),
    ],
)
def test_lines_for_systemd_report_start_and_end(snippets, sink, variables, end):
    for line in snippets["systemd"].splitlines():
        name, _, command = line.partition("=-")
        assert name in ("ExecStartPre", "ExecStopPost")
        # A unit writes a dollar sign twice.
        shell(command.replace("$$", "$"), **variables)

    assert paths(sink) == ["/start", end]


@needs_curl
def test_steps_for_github_report_success_or_failure(snippets, sink):
    for step in yaml.safe_load(snippets["github"]):
        shell(step["run"])

    assert paths(sink) == ["", "/fail"]


def test_lines_for_python_ping(snippets, sink):
    subprocess.run([sys.executable, "-c", snippets["python"]], check=True)

    assert sink.requests[0].path == "/ping/a-ping-key/backup"
