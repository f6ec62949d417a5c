"""The check of pinned dependencies against advisories, from a file and from a package index."""

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from verification import advisories
from verification.advisories import FILE, main, read_advisories

LOCK = """\
first==1.4.9 \\
    --hash=sha256:00
Second.One[extra]==2.0 ; python_version > '3' \\
    --hash=sha256:11
"""
ENTRY = {
    "id": "CVE-1",
    "package": "second_one",
    "affected": ["<1.5", ">=2.0,<2.0.3"],
    "fixed": ["1.5", "2.0.3"],
    "summary": "Bad.",
}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text(LOCK)
    return path


def file_of(folder: Path, *entries: Any, as_of: date | None = None) -> str:
    path = folder / "advisories.json"
    path.write_text(json.dumps({"as_of": str(as_of or datetime.now(UTC).date()), "advisories": entries}))
    return f"--file={path}"


@pytest.mark.parametrize(
    ("version", "code"),
    [("1.4", 1), ("1.5", 0), ("2.0", 1), ("2.0.2rc1", 1), ("2.0.3", 0)],
)
def test_affected_pin_fails(tmp_path, capsys, version, code):
    lock = tmp_path / "requirements.txt"
    lock.write_text(LOCK.replace("2.0", version))

    assert main([file_of(tmp_path, ENTRY), str(lock)]) == code

    said = "affected: second-one" in capsys.readouterr().out
    assert said == bool(code)


def test_output_names_the_advisory_and_the_fix(tmp_path, lock, capsys):
    main([file_of(tmp_path, ENTRY), str(lock)])

    assert capsys.readouterr().out.splitlines() == [
        f"2 pins compared with 1 advisories, known as of {datetime.now(UTC).date()}.",
        "affected: second-one 2.0: CVE-1, fixed in 1.5, 2.0.3: Bad.",
        "Update these pins: make lock.",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"affected": ["<2.0,"], "fixed": ["2.0"], "more": 1},
        {"affected": ["<=2.0"], "fixed": ["2.0"]},
        {"affected": []},
        {"fixed": ["soon", "2.0.3"]},
    ],
)
def test_wrong_entry_is_an_error_and_not_a_clean_result(tmp_path, lock, capsys, change):
    assert main([file_of(tmp_path, ENTRY | change), str(lock)]) == 2

    assert capsys.readouterr().err.startswith("advisories: ")


@pytest.mark.parametrize("content", ["", "django>=5", "# nothing"])
def test_lock_file_without_pins_is_an_error(tmp_path, lock, content):
    lock.write_text(content)

    assert main([file_of(tmp_path), str(lock)]) == 2


def test_committed_file_can_be_used_and_no_pin_is_affected(capsys):
    as_of, found = read_advisories(FILE)

    assert main(["--any-age"]) == 0
    assert str(as_of) in capsys.readouterr().out
    assert len({each.id for each in found}) == len(found) > 20
    assert all(each.summary for each in found)


def test_known_bad_version_is_found_by_the_committed_file(tmp_path):
    lock = tmp_path / "requirements.txt"
    lock.write_text("django==5.2.5\n")

    assert main([str(lock)]) == 1


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A package index on this machine: its answers by path, and the logins that it was given."""
    state: dict[str, Any] = {"answers": {}, "logins": set()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state["logins"].add(self.headers.get("Authorization"))
            answer = state["answers"].get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    state["url"] = f"http://me:hush%21@127.0.0.1:{server.server_port}/mirror/simple/"
    monkeypatch.setattr(advisories, "configured_index", lambda: urlsplit(state["url"]))
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("days", "code"), [(59, 0), (61, 1)])
def test_old_advisories_fail(tmp_path, lock, capsys, days, code):
    file = file_of(tmp_path, as_of=datetime.now(UTC).date() - timedelta(days=days))

    assert main([file, str(lock)]) == code
    assert ("days old" in capsys.readouterr().out) == bool(code)
    assert main(["--any-age", file, str(lock)]) == 0


GOOD: dict[str, Any] = {"vulnerabilities": []}
BAD = {"vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["2.0.1"], "summary": "Worse.", "withdrawn": None}]}
WITHDRAWN = {"vulnerabilities": [{"id": "PYSEC-1", "withdrawn": "2025-01-01T00:00:00Z"}]}


@pytest.mark.parametrize(("second", "code"), [(GOOD, 0), (BAD, 1), (WITHDRAWN, 0)])
def test_index_is_asked_about_every_pin(tmp_path, lock, index, capsys, second, code):
    index["answers"] = {"/mirror/pypi/first/1.4.9/json": GOOD, "/mirror/pypi/second-one/2.0/json": second}

    # What the index knows is of today.
    assert main(["--online", file_of(tmp_path, as_of=date(2025, 1, 1)), str(lock)]) == code

    printed = capsys.readouterr().out
    assert "Online: asked about 2 of 2 pins." in printed
    assert ("affected: second-one 2.0: PYSEC-1, fixed in 2.0.1: Worse." in printed) == bool(code)
    assert index["logins"] == {f"Basic {base64.b64encode(b'me:hush!').decode()}"}
    assert "hush" not in printed


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/mirror/pypi/first/1.4.9/json": GOOD}, "asked about 1 of 2 pins (it answered 404; the file"),
        (
            {"/mirror/pypi/first/1.4.9/json": {"info": {}}, "/mirror/pypi/second-one/2.0/json": []},
            "asked about 0 of 2 pins (it has no list of vulnerabilities; the file",
        ),
    ],
)
def test_what_the_index_does_not_know_is_said_and_the_file_decides(
    tmp_path, lock, index, capsys, answers, words
):
    index["answers"] = answers

    assert main(["--online", file_of(tmp_path, ENTRY), str(lock)]) == 1
    assert words in capsys.readouterr().out


def test_index_is_the_one_of_pip(tmp_path, lock, capsys, monkeypatch):
    # A minimal Debian makes environments without it.
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)

    assert main(["--online", file_of(tmp_path), str(lock)]) == 0
    assert "asked about 0 of 2 pins (pip names no index" in capsys.readouterr().out

    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    found = advisories.configured_index()
    assert found is not None
    assert found.hostname == "mirror.example"
