"""A dead parent leaves no orphan at work."""

import os
import signal
import subprocess
import sys
from queue import Queue

import pytest

from schedules.worker import parent_death

# Each line of a process's output is a sign of life; the pipe closes when the last of them is dead.
CHILD = """
import signal, sys, time
from schedules.worker import parent_death
{before}
parent_death.tie_to_parent({how})
print("ready", flush=True)
time.sleep(60)
"""
PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1]])
"""
FORKING = """
import os, time
from schedules.worker import parent_death
parent_death.tie_forks()
if os.fork() == 0:
    if os.fork() == 0:
        print("ready", flush=True)
    time.sleep(60)
time.sleep(60)
"""


def kill_once_ready(*command: str) -> str:
    """Kill the parent when its child is ready; return what the child said until it was dead, too."""
    parent = subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    rest, _ = parent.communicate(timeout=20)
    return rest


@pytest.mark.parametrize(
    ("before", "how", "last_words"),
    [
        pytest.param("", "", "", id="at once"),
        pytest.param(
            "parent_death.IS_LINUX, parent_death.LOOK_EVERY = False, 0.02", "", "", id="without Linux"
        ),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit()))",
            "signal.SIGTERM",
            "bye\n",
            id="gently",
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
    """The C library, but for the call that could end the test's own process."""

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def prctl(self, *arguments: int) -> int:
        return 0


@pytest.mark.parametrize(("parents", "is_ended"), [([7, 7], False), ([7, 1], True)])
def test_parent_that_died_while_being_tied_to_is_noticed(monkeypatch, kills, parents, is_ended):
    monkeypatch.setattr(parent_death, "IS_LINUX", True)
    monkeypatch.setattr("ctypes.CDLL", FakeLibrary)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0))

    parent_death.tie_to_parent(signal.SIGTERM)

    assert kills == ([(os.getpid(), signal.SIGTERM)] if is_ended else [])


def test_watching_thread_ends_the_process_after_its_parent(monkeypatch, kills):
    parents = [7, 7, 1]
    monkeypatch.setattr(parent_death, "LOOK_EVERY", 0)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0))

    parent_death._end_after(7, signal.SIGTERM)

    assert kills == [(os.getpid(), signal.SIGTERM)]


def test_without_linux_a_thread_watches(monkeypatch):
    started: Queue[tuple[object, ...]] = Queue()
    monkeypatch.setattr(parent_death, "IS_LINUX", False)
    monkeypatch.setattr(parent_death, "_end_after", lambda *arguments: started.put(arguments))

    parent_death.tie_to_parent(signal.SIGTERM)

    assert started.get(timeout=10) == (os.getppid(), signal.SIGTERM)


def test_forks_are_tied_by_a_hook(monkeypatch):
    hooks = {}
    monkeypatch.setattr(os, "register_at_fork", lambda **options: hooks.update(options))

    parent_death.tie_forks()

    assert hooks == {"after_in_child": parent_death.tie_to_parent}
