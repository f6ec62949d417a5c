"""Processes that end with their parent."""

import os
import signal
import subprocess
import sys
from queue import Queue

import pytest

from schedules.worker import parent_death
from tests.waiting import PATIENCE

# The output pipe closes when the last process that inherited it has ended.
CHILD = """
import os, signal, sys, time
from schedules.worker import parent_death
{before}
parent_death.end_with_parent(int(sys.argv[1]), {how})
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid())])
"""
FORKING = """
import os, time
from schedules.worker import parent_death
parent_death.end_forks_with_parent()
if os.fork() == 0:
    if os.fork() == 0:
        print("ready", flush=True)
    time.sleep(600)
time.sleep(600)
"""


def kill_once_ready(*command: str) -> str:
    """Kill the parent when its child is ready; return all output that the child printed until it ended."""
    parent = subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    first = parent.stdout.readline()
    parent.kill()
    rest, _ = parent.communicate(timeout=PATIENCE)
    assert first == "ready\n"
    return rest


@pytest.mark.parametrize(
    ("before", "how", "last_words"),
    [
        pytest.param("", "", "", id="SIGKILL"),
        pytest.param(
            "parent_death.IS_LINUX, parent_death.POLL_SECONDS = False, 0.02",
            "",
            "",
            id="polling, without Linux",
        ),
        pytest.param(
            # Not print(): the signal may arrive while the child is still inside its own print().
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'bye\\n'), os._exit(0)))",
            "signal.SIGTERM",
            "bye\n",
            id="SIGTERM",
        ),
    ],
)
def test_child_ends_with_its_parent(before, how, last_words):
    child = CHILD.format(before=before, how=how)

    assert kill_once_ready(PARENT, child) == last_words


def test_forks_and_their_forks_end_with_their_parent():
    assert kill_once_ready(FORKING) == ""


@pytest.fixture
def kills(monkeypatch) -> list[tuple[int, int]]:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


class FakeLibrary:
    """A C library whose prctl() does not affect the test process."""

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def prctl(self, *arguments: int) -> int:
        return 0


# The child calls end_with_parent() only after its start; by then the parent has been killed.
ORPHAN = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())], stdin=subprocess.PIPE)
os.kill(os.getpid(), signal.SIGKILL)
"""
LATE_CHILD = """
import sys, time
from schedules.worker import parent_death
{before}
sys.stdin.read()
parent_death.end_with_parent(int(sys.argv[1]))
time.sleep(600)
print("still alive", flush=True)
"""


@pytest.mark.parametrize("before", ["", "parent_death.IS_LINUX, parent_death.POLL_SECONDS = False, 0.02"])
def test_child_ends_if_its_parent_was_killed_while_it_started(before):
    # The child's standard input closes when its parent is dead: only then does it check its parent.
    parent = subprocess.run(
        [sys.executable, "-c", ORPHAN, LATE_CHILD.format(before=before)],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )

    assert parent.returncode == -signal.SIGKILL
    assert parent.stdout == b""


@pytest.mark.parametrize(("parent", "is_ended"), [(7, False), (1, True)])
def test_process_ends_if_its_parent_died_before_prctl(monkeypatch, kills, parent, is_ended):
    monkeypatch.setattr(parent_death, "IS_LINUX", True)
    monkeypatch.setattr("ctypes.CDLL", FakeLibrary)
    monkeypatch.setattr(os, "getppid", lambda: parent)

    parent_death.end_with_parent(7, signal.SIGTERM)

    assert kills == ([(os.getpid(), signal.SIGTERM)] if is_ended else [])


def test_polling_thread_ends_the_process_after_its_parent(monkeypatch, kills):
    parents = [7, 7, 1]
    monkeypatch.setattr(parent_death, "POLL_SECONDS", 0)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0))

    parent_death._end_after(7, signal.SIGTERM)

    assert kills == [(os.getpid(), signal.SIGTERM)]


def test_thread_polls_for_the_parent_without_linux(monkeypatch):
    started: Queue[tuple[object, ...]] = Queue()
    monkeypatch.setattr(parent_death, "IS_LINUX", False)
    monkeypatch.setattr(parent_death, "_end_after", lambda *arguments: started.put(arguments))

    parent_death.end_with_parent(7, signal.SIGTERM)

    assert started.get(timeout=PATIENCE) == (7, signal.SIGTERM)


LATE_FORK = """
import os, signal, sys, time
from schedules.worker import parent_death
# Runs in the child before the hook under test: the parent is dead by the time the child looks for it.
# Hooks of the child run in the order of registration.
ready, started = os.pipe()
os.register_at_fork(after_in_child=lambda: (os.close(started), os.read(ready, 1)))
parent_death.end_forks_with_parent()
if os.fork() == 0:
    # The kernel closes the pipe of a dying parent a moment before it tells the child.
    time.sleep(60)
    print("still alive", flush=True)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_fork_ends_if_its_parent_was_killed_during_the_fork():
    parent = subprocess.run(
        [sys.executable, "-c", LATE_FORK], stdout=subprocess.PIPE, timeout=PATIENCE, check=False
    )

    assert parent.returncode == -signal.SIGKILL
    assert parent.stdout == b""
