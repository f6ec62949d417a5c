"""`cronty exec` as a process of its own, on a machine that has an address and a key and nothing else."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cronty_site.terminal.elsewhere import reports
from cronty_site.terminal.elsewhere.reports import Outcome, Report, Spool
from cronty_site.terminal.elsewhere.server import Server
from schedules import services
from schedules.models import Execution, Ping, Profile, RunOutput
from schedules.services import Actor
from tests.api.conftest import program_of
from tests.clusters import PROJECT
from tests.documented import blocks
from tests.sink import Answer, Sink
from tests.waiting import wait_for

KEY = "fqOOd6-F4MMNuCEnzTU01w"
OK = Answer(body=b"OK", headers={"Content-Type": "text/plain"})
OF_CRONTY = {"Content-Type": "text/plain", "Ping-Body-Limit": "100000"}
PYTHON = [sys.executable, "-m", "cronty_site.terminal", "exec"]


@pytest.fixture
def sink():
    with Sink(OK) as server:
        yield server


@pytest.fixture
def wrap(tmp_path, sink):
    """Start `cronty exec` with nothing in its environment but what is given."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, url: str = "", **variables: str) -> "subprocess.Popen[str]":
        known = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
        address = {"CRONTY_URL": url or sink.url(""), "CRONTY_PING_KEY": KEY}
        process = subprocess.Popen(
            [*PYTHON, *arguments],
            env=known | address | variables,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        started.append(process)
        return process

    def run(*arguments: str, **options: str) -> "subprocess.CompletedProcess[str]":
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    run.start = start  # type: ignore[attr-defined]
    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def kept(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("spool/*/*.json"))


def unused_address() -> str:
    with Sink() as gone:
        return gone.url("")


def test_start_end_exit_code_and_output_are_reported(wrap, sink):
    ended = wrap("--job", "backup", "--", "sh", "-c", "echo one; echo two >&2; exit 7")

    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "one\n", "two\n")
    start, end = sink.requests
    assert (start.method, start.path.partition("?")[0]) == ("POST", f"/ping/{KEY}/backup/start")
    assert end.path.partition("?")[0] == f"/ping/{KEY}/backup/7"
    assert start.path.partition("rid=")[2] == end.path.partition("rid=")[2] != ""
    assert sorted(end.body.decode().split()) == ["one", "two"]
    assert "cronty-late" not in end.headers


def test_what_is_sent_is_what_pings_mean(wrap, sink, owner, client):
    Profile.objects.filter(user=owner).update(ping_key=KEY)
    services.schedule(
        Actor(owner), name="Backup of db1", task="heartbeat", trigger_type="cron", cron="0 3 * * *"
    )

    wrap("--job", "Backup of db1", "--", "echo", "12 files")
    for request in sink.requests:
        headers = {name: text for name, text in request.headers.items() if name == "cronty-late"}
        answer = client.generic(
            "POST", request.path, request.body, content_type="text/plain", headers=headers
        )
        assert (answer.status_code, answer.content) == (200, b"OK")

    row = Execution.objects.get()
    assert (row.status, row.result, RunOutput.objects.get().tail) == (
        "succeeded",
        {"exit_code": 0},
        "12 files",
    )
    assert row.took is not None


def test_token_serves_instead_of_a_ping_key(wrap, sink, owner, client):
    services.schedule(Actor(owner), name="Backup", task="heartbeat", trigger_type="cron", cron="0 3 * * *")
    token = program_of(owner).text
    sink.default = Answer(body=b'{"stored": true}', headers={"Content-Type": "application/json"})

    ended = wrap("--job", "Backup", "--", "false", CRONTY_PING_KEY="", CRONTY_TOKEN=token)

    assert ended.returncode == 1
    for request in sink.requests:
        assert request.headers["authorization"] == f"Bearer {token}"
        answer = client.generic(
            "POST",
            request.path,
            request.body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 200, answer.content
    assert list(Ping.objects.order_by("pk").values_list("kind", "exit_status")) == [
        ("start", None),
        ("fail", 1),
    ]


@pytest.mark.parametrize(
    ("printed", "stored"),
    [
        (r"one\0two\n", "onetwo\n"),
        (r"\377\355\240\200!\n", "\ufffd\ufffd\ufffd\ufffd!\n"),
        ("中" * 40_000, "中" * 33_333),
    ],
    ids=["nul", "no text", "long"],
)
def test_any_output_is_taken_with_a_token(wrap, sink, owner, client, printed, stored):
    services.schedule(Actor(owner), name="Backup", task="heartbeat", trigger_type="cron", cron="0 3 * * *")
    token = program_of(owner).text
    sink.default = Answer(body=b'{"stored": true}', headers={"Content-Type": "application/json"})

    wrap("--job", "Backup", "--", "printf", printed, CRONTY_PING_KEY="", CRONTY_TOKEN=token)

    request = sink.requests[-1]
    answer = client.generic(
        "POST",
        request.path,
        request.body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 200, answer.content
    assert Ping.objects.latest("pk").kind == "success"
    assert stored in json.loads(request.body)["output"]


@pytest.mark.parametrize("status", [413, 422])
def test_output_that_is_refused_is_left_out(wrap, sink, tmp_path, status):
    sink.then(OK, Answer(status=status, body=b"too much", headers={"Content-Type": "text/plain"}), OK)

    ended = wrap("--job", "backup", "--", "sh", "-c", "echo one; exit 3")

    assert (ended.returncode, ended.stderr) == (3, "")
    assert sink.requests[-1].path.partition("?")[0].endswith("/backup/3")
    assert sink.requests[-1].body == f"(The output was refused: {status} too much.)".encode()
    assert kept(tmp_path) == []


def test_uuid_needs_no_key_and_is_sent_none(wrap, sink):
    place = "3b2f0c9e-0000-4000-8000-000000000001"

    assert wrap("--job", place, "--", "true", CRONTY_PING_KEY="", CRONTY_TOKEN="secret").returncode == 0

    assert sink.requests[-1].path.startswith(f"/ping/{place}/0?rid=")
    assert "authorization" not in sink.requests[-1].headers


def test_reports_are_kept_while_the_server_is_away_and_sent_later_marked_as_late(wrap, sink, tmp_path):
    ended = wrap(
        "--job", "backup", "--retry-for", "0", "--", "sh", "-c", "echo lost; exit 3", url=unused_address()
    )

    assert ended.returncode == 3
    assert "the report is kept" in ended.stderr
    [start, end] = kept(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in (start, end)} == {0o600}
    assert KEY not in start.read_text() + str(start)
    # Kept for an address that answers again; a moment later, it is late.
    target = tmp_path / ".local/state/cronty/spool" / Server(sink.url(""), "", KEY).digest
    start.parent.rename(target)
    for file in target.glob("*.json"):
        values = json.loads(file.read_text())
        file.write_text(json.dumps(values | {"at": values["at"] - 3600}))

    assert wrap("--job", "other", "--", "true").returncode == 0

    assert [request.path.partition("?")[0].removeprefix(f"/ping/{KEY}/") for request in sink.requests] == [
        *("backup/start", "backup/3"),
        *("other/start", "other/0"),
    ]
    assert [3600 <= float(request.headers.get("cronty-late", 0)) < 3700 for request in sink.requests] == [
        *(True, True),
        *(False, False),
    ]
    assert sink.requests[1].body == b"lost\n"
    assert kept(tmp_path) == []


def test_only_a_stored_report_is_forgotten(sink, tmp_path):
    server = Server(sink.url(""), "", KEY)
    for number, (answer, is_kept) in enumerate(
        [
            (Answer(status=503), True),
            (Answer(status=429), True),
            (Answer(status=404, body=b"not found", headers=OF_CRONTY), False),
            (Answer(status=404, body=b"404 page not found", headers={"Content-Type": "text/plain"}), True),
            (Answer(status=403, body=b"<html>Forbidden", headers={"Content-Type": "text/html"}), True),
            # The login page of a network is not an answer of Cronty.
            (Answer(body=b"<html>Welcome", headers={"Content-Type": "text/html"}), True),
            (Answer.redirect("https://elsewhere.example/"), True),
            (Answer(manner="reset"), True),
            (Answer(manner="garbage"), True),
        ]
    ):
        sink.default = answer
        spool = Spool(tmp_path / str(number), server)
        spool.add(report())

        spool.send(60, lambda text: None)

        assert len(kept_in(tmp_path / str(number))) == is_kept, answer


def test_end_is_tried_again_before_it_is_kept(wrap, sink, tmp_path):
    sink.then(OK, Answer(status=503))

    assert wrap("--job", "backup", "--", "true").returncode == 0

    assert [request.path.partition("?")[0][-2:] for request in sink.requests] == ["rt", "/0", "/0"]
    assert kept(tmp_path) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 3), (signal.SIGKILL, -signal.SIGKILL)])
def test_signal_after_the_command_loses_no_report_and_no_exit_code(wrap, sink, tmp_path, number, code):
    sink.default = Answer(status=503)
    process = wrap.start("--job", "backup", "--retry-for", "600", "--", "sh", "-c", "exit 3")
    # The start is tried once, and the end again and again: wait for the second time.
    wait_for(lambda: len(sink.requests) >= 3)

    process.send_signal(number)
    process.communicate(timeout=120)

    assert process.returncode == code
    assert [json.loads(file.read_text())["code"] for file in kept(tmp_path)] == [None, 3]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signal_that_ends_the_command_ends_the_wrapper(wrap, sink, number):
    ended = wrap("--job", "backup", "--", "sh", "-c", f"kill -{int(number)} $$")

    assert ended.returncode == -number
    assert sink.requests[-1].path.partition("?")[0].endswith(f"/{128 + number}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signal_is_passed_on_to_the_command(wrap, sink, number):
    # In short steps: a signal just before a sleep is handled after it.
    script = f"""import signal, sys, time
signal.signal({int(number)}, lambda *a: sys.exit(9))
print(1, flush=True)
while True:
    time.sleep(0.1)
"""
    process = wrap.start("--job", "backup", "--", sys.executable, "-c", script)

    assert process.stdout.readline() == "1\n"
    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == 9
    assert sink.requests[-1].path.partition("?")[0].endswith("/9")


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_command_that_cannot_be_started_is_a_failure(wrap, sink, command, code):
    ended = wrap("--job", "backup", "--", command)

    assert ended.returncode == code
    assert command in ended.stderr
    assert sink.requests[-1].path.partition("?")[0].endswith(f"/{code}")


def test_no_shell_reads_the_arguments(wrap, sink):
    assert wrap("--job", "backup", "--", "echo", "$HOME; *", "a b").stdout == "$HOME; * a b\n"


def test_command_starts_at_once_while_the_server_hangs(wrap, sink):
    sink.default = Answer(manner="hang")
    process = wrap.start("--job", "backup", "--timeout", "1", "--retry-for", "0", "--", "echo", "started")

    assert process.stdout.readline() == "started\n"
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_process_that_is_left_behind_does_not_hold_the_end(wrap, sink):
    ended = wrap("--job", "backup", "--", "sh", "-c", "sleep 30 & echo done")

    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert sink.requests[-1].body == b"done\n"


def test_last_output_is_reported_up_to_its_limit(wrap, sink):
    ended = wrap("--job", "backup", "--", sys.executable, "-c", "print('x' * 200_000 + 'end')")

    assert len(ended.stdout) == 200_004
    assert len(sink.requests[-1].body) == 100_000
    assert sink.requests[-1].body.endswith(b"end\n")


def test_output_is_not_reported_if_so_asked(wrap, sink):
    assert wrap("--job", "backup", "--no-output", "--", "echo", "secret").stdout == "secret\n"
    assert sink.requests[-1].body == b""


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--job", "x", "--", "true"], {"CRONTY_PING_KEY": ""}, "CRONTY_PING_KEY"),
        (["--job", "x", "--", "true"], {"CRONTY_URL": "cronty.example"}, "https://"),
        (["--job", "x", "--", "true"], {"CRONTY_PING_KEY_FILE": "/nowhere"}, "/nowhere"),
        (["--job", "x"], {}, "--job NAME -- COMMAND"),
    ],
)
def test_what_is_missing_is_named_and_nothing_runs(wrap, sink, arguments, variables, words):
    ended = wrap(*arguments, **variables)

    assert ended.returncode == 2
    assert words in ended.stderr
    assert sink.requests == []


def test_what_was_kept_is_sent_without_a_command(wrap, sink, tmp_path):
    folder = tmp_path / "kept"
    Spool(folder, Server(sink.url(""), "", KEY)).add(report())

    assert wrap("--send", CRONTY_SPOOL=str(folder)).returncode == 0

    assert len(sink.requests) == 1
    assert list(folder.rglob("*.json")) == []
    assert wrap("--send", url=unused_address()).returncode == 0


def test_command_of_the_page_is_wrapped(wrap, sink, tmp_path):
    exported, line = blocks("docs/how-to/heartbeats.md", "sh")[2].text.strip().splitlines()
    program = tmp_path / "backup"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    variables = dict(word.split("=") for word in exported.split()[1:])
    words = shlex.split(line.replace("/usr/local/bin/backup", str(program)))

    ended = wrap(*words[2:], **variables | {"CRONTY_URL": sink.url("")})

    assert ended.stdout == "--all\n"
    assert sink.requests[-1].path.startswith(f"/ping/{variables['CRONTY_PING_KEY']}/backup-of-db1/0?")


def test_two_at_once_are_two_runs_and_send_what_was_kept_once(wrap, sink, tmp_path):
    spool = Spool(tmp_path / ".local/state/cronty/spool", Server(sink.url(""), "", KEY))
    for number in range(5):
        spool.add(Report("old", f"00000000-0000-4000-8000-00000000000{number}", 0.0, code=0))

    both = [wrap.start("--job", name, "--", "echo", name) for name in ("a", "b")]
    assert [process.wait(timeout=60) for process in both] == [0, 0]

    paths = [request.path.partition("?")[0].removeprefix(f"/ping/{KEY}/") for request in sink.requests]
    assert sorted(paths) == ["a/0", "a/start", "b/0", "b/start", *["old/0"] * 5]
    for process in both:
        process.communicate()


# Reports on disk


def report(number: int = 0, output: str = "") -> Report:
    return Report("backup", f"00000000-0000-4000-8000-{number:012}", 0.0, code=0, output=output)


def test_oldest_reports_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "MAX_SPOOLED", 3)
    spool = Spool(tmp_path, Server("http://127.0.0.1:9", "", KEY))

    for number in range(5):
        spool.add(report(number))
    assert (spool.make_room(), spool.make_room()) == (2, 0)

    kept_rids = [json.loads(file.read_text())["rid"][-1] for file in sorted(tmp_path.rglob("*.json"))]
    assert kept_rids == ["2", "3", "4"]


def test_kept_reports_are_bounded_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "MAX_SPOOLED_BYTES", 25_000)
    spool = Spool(tmp_path, Server("http://127.0.0.1:9", "", KEY))

    for number in range(5):
        spool.add(report(number, output="x" * 100_000))

    assert spool.make_room() == 3
    assert len(list(tmp_path.rglob("*.json"))) == 2


def test_damaged_report_holds_up_no_other(tmp_path, sink):
    server = Server(sink.url(""), "", KEY)
    spool = Spool(tmp_path, server)
    spool.add(report())
    damaged = tmp_path / server.digest / "00000000000000000000-1-1.json"
    damaged.write_text("{")
    said: list[str] = []

    assert spool.send(5, said.append) == (Outcome.STORED, "")

    assert len(sink.requests) == 1
    assert len(said) == 1
    assert list(tmp_path.rglob("*.json")) == []


def test_reports_of_another_server_or_key_are_left_alone(tmp_path, sink):
    Spool(tmp_path, Server(sink.url(""), "", "another-key")).add(report())

    Spool(tmp_path, Server(sink.url(""), "", KEY)).send(5, lambda text: None)

    assert sink.requests == []
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_reports_are_sent_by_one_process_at_a_time(tmp_path, sink, monkeypatch):
    monkeypatch.setattr(reports, "WAIT_FOR_OTHERS", 0.05)
    spool = Spool(tmp_path, Server(sink.url(""), "", KEY))
    spool.add(report())
    done = threading.Event()

    with spool._locked() as is_mine:
        assert is_mine
        threading.Thread(target=lambda: (spool.send(5, print), done.set())).start()
        assert done.wait(30)
    assert sink.requests == []


def kept_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("[0-9]*.json"))
