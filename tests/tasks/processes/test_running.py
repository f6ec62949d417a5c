"""Guarded programs: how they end, what is known about them, and that nothing outlives them."""

import ast
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from schedules.tasks.processes import Ended, Program, StartError, guard, run_program
from schedules.tasks.processes import running as running_module
from tests.tasks.conftest import timeouts
from tests.waiting import PATIENCE, wait_for


class Sink:
    def __init__(self) -> None:
        self.printed = {1: b"", 2: b""}
        self.skipped = Counter()

    def add(self, stream: int, data: bytes) -> None:
        self.printed[stream] += data

    def skip(self, stream: int, count: int) -> None:
        self.skipped[stream] += count


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(running_module, "GRACE_SECONDS", 0.3)


@pytest.fixture(autouse=True)
def patient_guard(monkeypatch, tmp_path_factory):
    """A guard that does not give up killing because the machine stood still."""
    copy = tmp_path_factory.mktemp("guard") / "guard.py"
    seconds = f"KILL_SECONDS = {guard.KILL_SECONDS}\n"
    source = Path(running_module.GUARD).read_text()
    assert seconds in source
    copy.write_text(source.replace(seconds, f"KILL_SECONDS = {PATIENCE}\n"))
    monkeypatch.setattr(running_module, "GUARD", str(copy))
    monkeypatch.setattr(guard, "KILL_SECONDS", PATIENCE)


def run(*arguments: str, timeout: float = PATIENCE, sink: Sink | None = None, **values) -> Ended:
    program = Program(
        arguments, {"PATH": os.environ["PATH"], "A": "b"}, values.pop("directory", "/"), **values
    )
    return asyncio.run(run_program(program, timeout, sink or Sink()))


def python(code: str, *arguments: str, **values) -> Ended:
    return run(sys.executable, "-I", "-S", "-c", code, *arguments, **values)


def sh(script: str, **values) -> Ended:
    return run("/bin/sh", "-c", script, **values)


def is_dead(pid_file: Path) -> bool:
    """Tell whether the process whose pid is in the file has ended; the guard has waited for that."""
    pid = int(pid_file.read_text())
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_program_gets_its_arguments_environment_directory_and_nothing_else(tmp_path):
    sink = Sink()
    hostile = ["-x", "--", "a\nb", "*", "$(reboot)", "`id`", "; ls", "Grüße 🌵", ""]

    python(
        "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), sys.stdin.read(),"
        " os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd'))[:-1], oct(os.umask(0))]))",
        *hostile,
        sink=sink,
        directory=str(tmp_path),
        umask=0o027,
    )

    found = json.loads(sink.printed[1])
    environment = {name: value for name, value in found[2].items() if name != "LC_CTYPE"}
    assert found[:2] == [hostile, str(tmp_path)]
    assert environment == {"PATH": os.environ["PATH"], "A": "b"}
    assert found[3:] == ["", True, ["0", "1", "2"], "0o27"]


def test_end_of_a_program_is_described():
    burn = (
        "import time, sys\ndata = bytearray(60_000_000)\nwhile time.process_time() < 0.2: pass\nsys.exit(7)"
    )

    started = time.monotonic()
    ended = python(burn)
    took = time.monotonic() - started

    assert (ended.code, ended.signal, ended.survivors, ended.is_timeout) == (7, None, 0, False)
    assert 0.2 <= ended.cpu_seconds <= took
    assert 60_000_000 < ended.peak_bytes < 200_000_000


def test_program_that_is_killed_by_a_signal_has_no_code():
    ended = sh("kill -SEGV $$")

    assert (ended.code, ended.signal, ended.signal_name) == (None, signal.SIGSEGV, "SIGSEGV")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("/nonexistent/program", "No such file or directory"),
        ("no-such-program-anywhere", "^no-such-program-anywhere: There is no such program in /"),
        (__file__, "Permission denied"),
        ("/etc", "Permission denied"),
    ],
)
def test_program_that_cannot_start_says_why(program, words):
    with pytest.raises(StartError, match=words):
        run(program)


def test_missing_interpreter_of_a_script_is_named(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/nonexistent/python\n")
    script.chmod(0o700)

    with pytest.raises(StartError, match="script: The interpreter that its first line names does not exist"):
        run(str(script))


def test_directory_that_does_not_exist_is_named():
    with pytest.raises(StartError, match="/nonexistent/folder: No such file or directory"):
        run("/bin/true", directory="/nonexistent/folder")


def test_flood_of_output_is_bounded_to_its_beginning_and_end():
    sink = Sink()
    code = (
        "import sys\nblock, output = b'x' * 1_000_000, sys.stdout.buffer\noutput.write(b'first')\n"
        "for _ in range(40): output.write(block)\nsys.stderr.write('last')"
    )

    before = psutil.Process().memory_info().rss
    ended = python(code, sink=sink)

    printed = len(sink.printed[1]) + len(sink.printed[2])
    assert ended.code == 0
    assert sink.printed[1].startswith(b"first")
    assert sink.printed[2] == b"last"
    assert printed + sink.skipped[1] == 40_000_009
    assert printed < 3_000_000
    assert psutil.Process().memory_info().rss - before < 20_000_000


def test_output_arrives_while_the_program_runs(tmp_path):
    class Watcher(Sink):
        def add(self, stream: int, data: bytes) -> None:
            super().add(stream, data)
            (tmp_path / "seen").touch()

    sink = Watcher()
    ended = sh(f"echo first; while [ ! -e {tmp_path}/seen ]; do sleep 0.05; done; echo second >&2", sink=sink)

    assert ended.code == 0
    assert sink.printed == {1: b"first\n", 2: b"second\n"}


def test_program_that_closes_its_output_runs_on():
    assert sh("exec >&- 2>&-; sleep 0.3; exit 4").code == 4


def test_program_that_ends_at_the_signal_may_clean_up(tmp_path, monkeypatch):
    monkeypatch.setattr(running_module, "GRACE_SECONDS", PATIENCE)
    ready = tmp_path / "ready"
    script = f"trap 'echo bye > {tmp_path}/bye; exit 3' TERM; : > {ready}; while :; do sleep 0.05; done"

    for timeout in timeouts(ready):
        ended = sh(script, timeout=timeout)

    assert (ended.is_timeout, ended.code) == (True, 3)
    assert (tmp_path / "bye").exists()


@pytest.mark.parametrize(
    "child",
    [
        pytest.param("sleep 600 &", id="child"),
        pytest.param("setsid sleep 600 &", id="other session"),
        pytest.param(
            "(setsid sh -c 'sleep 600 & echo $! > {pid}; exit' &) ;"
            " while [ ! -s {pid} ]; do sleep 0.05; done; sleep 0.2;",
            id="orphan",
        ),
    ],
)
@pytest.mark.parametrize(
    "ending",
    ["exit 0", "trap '' TERM HUP; : > {ready}; while :; do sleep 600; done"],
    ids=["ends", "endless"],
)
def test_nothing_that_a_program_started_outlives_it(child, ending, tmp_path):
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    script = child.replace("{pid}", str(pid))
    if "{pid}" not in child:
        script += f" echo $! > {pid};"
    script += ending.replace("{ready}", str(ready))

    is_endless = ending != "exit 0"

    for timeout in timeouts(ready) if is_endless else [PATIENCE]:
        ended = sh(script, timeout=timeout)

    assert ended.is_timeout == is_endless
    assert ended.survivors == 0
    assert is_dead(pid)


def test_program_that_forks_without_end_is_killed_whole(tmp_path):
    ready = tmp_path / "ready"
    script = (
        "f() { sleep 600 & sleep 600 & }; i=0; while [ $i -lt 40 ]; do f; i=$((i+1)); done;"
        f" : > {ready}; wait"
    )

    for timeout in timeouts(ready):
        ended = sh(script, timeout=timeout)

    assert (ended.is_timeout, ended.survivors) == (True, 0)


SLOW_GUARD = """
import runpy, socket, sys, time
with socket.socket(fileno=int(sys.argv[1])) as control:
    while not control.recv(1_000_000, socket.MSG_PEEK).endswith(b"+"):
        time.sleep(0.01)
    control.detach()
start = runpy.run_path({guard!r})["start"]
"""


def test_program_runs_although_a_sign_of_life_comes_before_its_guard_is_ready(tmp_path, monkeypatch):
    """On a busy machine the guard waited for ever for the end of a line that it had read."""
    # Signs of life within a second, and yet a long lease.
    monkeypatch.setattr(running_module, "HEARTBEATS_PER_LEASE", 1000)
    slow = tmp_path / "guard.py"
    slow.write_text(SLOW_GUARD.format(guard=running_module.GUARD))
    monkeypatch.setattr(running_module, "GUARD", str(slow))

    assert sh("exit 4").code == 4


@contextmanager
def started_guard(script: str, lease: float) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A guard whose worker is this test; yields its process and the worker's end of the socket."""
    spec = {
        "arguments": ["/bin/sh", "-c", script],
        "environment": {"PATH": os.environ["PATH"]},
        "directory": "/",
        "umask": 0,
        "head": 1,
        "tail": 1,
        "lease": lease,
        "grace": 1,
    }
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [
            sys.executable,
            "-c",
            running_module.START_GUARD,
            str(theirs.fileno()),
            running_module.GUARD,
        ]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        try:
            theirs.close()
            ours.sendall(guard.frame(guard.PROGRAM, running_module.packed(spec)) + b"+")
            yield process, ours
        finally:
            process.kill()
            process.wait()


def report_in(worker: socket.socket) -> dict[str, object]:
    """Wait for the report of the guard, with heartbeats."""
    answer = b""
    worker.settimeout(0.2)
    while guard.REPORT not in answer:
        try:
            part = worker.recv(65_536)
        except TimeoutError:
            worker.sendall(b"+")
        else:
            assert part, "the guard ended without a report"
            answer += part
    return ast.literal_eval(answer[answer.index(b"{") :].decode())


def test_guard_stays_until_its_report_has_been_read():
    """A sign of life that came after the guard had ended broke the connection, and the report was lost."""
    with started_guard("exit 0", lease=PATIENCE) as (process, worker):
        assert report_in(worker)["status"] == 0

        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        worker.sendall(b"+")
        worker.close()
        assert process.wait(PATIENCE) == 0


HELD_UP_GUARD = """
import itertools, runpy, time
real, calls = time.monotonic, itertools.count()
time.monotonic = lambda: real() + (600 if next(calls) else 0)
start = runpy.run_path({guard!r})["start"]
"""


def test_guard_that_was_held_up_looks_for_signs_of_life_before_it_kills(tmp_path, monkeypatch):
    """It compared the time first, and killed the program of a worker that was alive."""
    held_up = tmp_path / "guard.py"
    held_up.write_text(HELD_UP_GUARD.format(guard=running_module.GUARD))
    monkeypatch.setattr(running_module, "GUARD", str(held_up))

    with started_guard("sleep 0.2; exit 0", lease=PATIENCE) as (_, worker):
        assert report_in(worker)["status"] == 0


STOOD_STILL_GUARD = """
import os, runpy, time
real = time.monotonic
time.monotonic = lambda: real() + (600 if os.path.exists({stood_still!r}) else 0)
start = runpy.run_path({guard!r})["start"]
"""


def test_guard_that_stood_still_with_the_whole_machine_gives_the_worker_another_lease(tmp_path, monkeypatch):
    """It gave a worker that had stood still with it a hundredth of a second to show that it was alive."""
    code, running, stood_still, end = (tmp_path / name for name in ("guard.py", "running", "stood", "end"))
    code.write_text(STOOD_STILL_GUARD.format(guard=running_module.GUARD, stood_still=str(stood_still)))
    monkeypatch.setattr(running_module, "GUARD", str(code))
    script = f"touch {running}; until [ -e {end} ]; do sleep 0.05; done"

    with started_guard(script, lease=PATIENCE) as (process, worker):
        wait_for(running.exists)
        stood_still.touch()
        # It looks at the time at least once a second.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        end.touch()

        assert report_in(worker)["status"] == 0


def test_cancelled_program_is_killed_with_its_children(tmp_path):
    async def scenario() -> None:
        program = Program(
            ["/bin/sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; wait"],
            {"PATH": os.environ["PATH"]},
            "/",
        )
        task = asyncio.create_task(run_program(program, 60, Sink()))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())

    assert is_dead(tmp_path / "pid")


WORKER = """
import asyncio, os, sys
from django.conf import settings
settings.configure(CRONTY_LEASE_SECONDS=int(sys.argv[2]))
from schedules.tasks.processes import Program, run_program

class Sink:
    def add(self, stream, data): pass
    def skip(self, stream, count): pass

script = f"(setsid sleep 600 & echo $! > {sys.argv[1]}/child); echo $$ > {sys.argv[1]}/pid; exec sleep 600"
asyncio.run(run_program(Program(["/bin/sh", "-c", script], dict(os.environ), "/"), 600, Sink()))
"""


@pytest.mark.parametrize(
    ("how", "lease"), [(signal.SIGKILL, 600), (signal.SIGSTOP, 5)], ids=["killed", "frozen"]
)
def test_program_dies_with_a_worker_that_is_killed_or_frozen_for_longer_than_its_lease(how, lease, tmp_path):
    project = Path(__file__).resolve().parents[3]
    program, child = tmp_path / "pid", tmp_path / "child"
    worker = psutil.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(lease)], cwd=project)
    try:
        wait_for(lambda: program.exists() and program.read_text())
        assert not is_dead(program)
        assert not is_dead(child)

        worker.send_signal(how)
        wait_for(lambda: is_dead(program) and is_dead(child))

        assert is_dead(program)
        assert is_dead(child)
    finally:
        worker.kill()
        worker.wait()


async def run_and_hit_guard(folder: Path, which: str, how: signal.Signals, timeout: float = 60) -> Ended:
    """Run a program with a child in another session, and send a signal to one of the two processes of its guard."""
    script = f"(setsid sleep 600 & echo $! > {folder}/child); echo $$ > {folder}/pid; exec sleep 600"
    program = Program(["/bin/sh", "-c", script], dict(os.environ), "/")
    task = asyncio.create_task(run_program(program, timeout, Sink()))
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        await asyncio.sleep(0.01)
    first = psutil.Process(int((folder / "pid").read_text())).parent()
    hit = first if which == "first" else first.parent()
    assert hit.pid != os.getpid()
    hit.send_signal(how)
    return await task


GUARD_PROCESSES = ["first", "second"] if guard.IS_LINUX else ["first"]


@pytest.mark.parametrize("which", GUARD_PROCESSES)
def test_program_dies_with_its_guard(which, tmp_path):
    """A child in another session lived on."""
    ended = asyncio.run(run_and_hit_guard(tmp_path, which, signal.SIGKILL))

    assert (ended.code, ended.signal) == (None, signal.SIGKILL)
    assert is_dead(tmp_path / "pid")
    assert is_dead(tmp_path / "child")


@pytest.mark.skipif(not guard.IS_LINUX, reason="nobody else can find the children of a dead guard")
def test_program_and_its_children_die_if_both_processes_of_its_guard_are_killed_at_once(tmp_path):
    """A child in another session, and a child of that one without any environment, lived on."""
    bystander = psutil.Popen(["sleep", "600"], env={"CRONTY_MARK": "of another run"})
    script = (
        f"(setsid sh -c 'env -i setsid sleep 600 & echo $! > {tmp_path}/grandchild; exec sleep 600' &"
        f" echo $! > {tmp_path}/child); echo $$ > {tmp_path}/pid; exec sleep 600"
    )

    async def scenario() -> Ended:
        program = Program(["/bin/sh", "-c", script], dict(os.environ), "/", mark="of this run")
        task = asyncio.create_task(run_program(program, 60, Sink()))
        files = [tmp_path / name for name in ("pid", "child", "grandchild")]
        while not all(file.exists() and file.read_text() for file in files):
            await asyncio.sleep(0.01)
        first = psutil.Process(int(files[0].read_text())).parent()
        second = first.parent()
        for process in (first, second):
            process.suspend()
        for process in (first, second):
            process.kill()
        return await task

    try:
        ended = asyncio.run(scenario())

        assert ended.signal == signal.SIGKILL
        assert [name for name in ("pid", "child", "grandchild") if not is_dead(tmp_path / name)] == []
        assert bystander.is_running()
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.skipif(not guard.IS_LINUX, reason="nobody else can find the children of a frozen guard")
@pytest.mark.parametrize("which", GUARD_PROCESSES)
def test_timeout_ends_a_program_whose_guard_is_frozen(which, tmp_path):
    """The program ran on, and nobody was left to kill it."""
    ended = asyncio.run(run_and_hit_guard(tmp_path, which, signal.SIGSTOP, timeout=2))

    assert (ended.is_timeout, ended.signal, ended.survivors) == (True, signal.SIGTERM, 0)
    assert is_dead(tmp_path / "pid")
    assert is_dead(tmp_path / "child")
