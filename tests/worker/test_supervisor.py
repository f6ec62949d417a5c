"""The supervisor, with real child processes."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from schedules.worker import supervisor
from schedules.worker.supervisor import Child, Supervisor
from tests.waiting import wait_for

# How many signals end each kind of child.
SIGNALS = {"good": 1, "patient": 2, "busy": 3, "stubborn": 9, "deadly": 1}


def behave(arguments: list[str]) -> None:
    """Stand in for a management command; its name selects the behaviour."""
    _, kind, name, *others = arguments
    assert others == ["--with-parent", str(os.getppid())]
    assert os.getsid(0) == os.getpid()
    signals: list[int] = []
    if kind != "deadly":
        signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    with Path(name).open("a") as file:
        file.write("x")
    if kind == "frail":
        sys.exit(3)
    while len(signals) < SIGNALS[kind]:
        threading.Event().wait(0.01)


@pytest.fixture(autouse=True)
def folder(tmp_path, settings, monkeypatch) -> Iterator[Path]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervisor, "execute_from_command_line", behave)
    monkeypatch.setattr(supervisor, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.1)
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def supervise() -> Iterator[object]:
    made: list[Supervisor] = []

    def start(*commands: tuple[str, str]) -> Supervisor:
        made.append(Supervisor(commands))
        made[0].run(lambda: True)
        return made[0]

    yield start
    for child in made[0].children:
        if child.process:
            child.process.kill()
            child.process.join()


def starts(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text()) if path.exists() else 0


def test_children_run_until_the_condition_holds_and_stop_together(supervise, folder):
    group = supervise(("good", "web"), ("good", "cluster"))

    group.run(lambda: starts(folder, "web") == starts(folder, "cluster") == 1)
    group.stop()

    assert [child.process.exitcode for child in group.children] == [0, 0]


def test_dead_child_is_restarted(supervise, folder, caplog):
    group = supervise(("deadly", "web"), ("good", "cluster"))
    wait_for(lambda: starts(folder, "web") and starts(folder, "cluster"))
    group.children[0].process.kill()

    group.run(lambda: starts(folder, "web") == 2)
    group.stop()

    assert starts(folder, "cluster") == 1
    assert "deadly ended with status -9; starting it again in 0.01 s" in caplog.text


def test_child_that_keeps_dying_is_restarted_with_growing_pauses(supervise, folder, caplog):
    group = supervise(("frail", "web"), ("good", "cluster"))

    group.run(lambda: starts(folder, "web") >= 7)
    group.stop()

    assert starts(folder, "cluster") == 1
    restarts = [record.getMessage() for record in caplog.records if "frail" in record.getMessage()]
    assert restarts[:6] == [
        f"frail ended with status 3; starting it again in {pause:g} s"
        for pause in (0.01, 0.02, 0.04, 0.08, 0.1, 0.1)
    ]


def test_child_that_cannot_be_forked_is_started_later(supervise, folder, caplog, monkeypatch):
    real, refusals = os.fork, iter([errno.EAGAIN, errno.ENOMEM])

    def fork() -> int:
        if number := next(refusals, None):
            raise OSError(number, os.strerror(number))
        return real()

    monkeypatch.setattr(os, "fork", fork)
    group = supervise(("good", "web"))

    group.run(lambda: starts(folder, "web") == 1)

    assert "good could not be started (Resource temporarily unavailable); starting it again" in caplog.text
    assert "good could not be started (Cannot allocate memory); starting it again" in caplog.text


def test_child_that_dies_after_a_long_life_is_restarted_at_once(folder, caplog, monkeypatch):
    child = Child(["frail", "web"])
    now = 1000.0
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now)
    for lived in (1, 1, 100, 1):
        child.start_if_due()
        assert child.process
        child.process.join()
        now += lived
        child.note_death()
        now += 60

    pauses = [record.args[2] for record in caplog.records]
    assert pauses == ["in 0.01 s", "in 0.02 s", "now", "in 0.01 s"]


@pytest.mark.django_db(transaction=True)
def test_child_shares_no_connection_and_no_signal_handler(folder, monkeypatch):
    def report(arguments: list[str]) -> None:
        handlers = {signal.getsignal(number) for number in supervisor.STOP_SIGNALS}
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(supervisor.STOP_SIGNALS)
        Path("seen").write_text(
            f"{handlers == {signal.SIG_DFL}} {blocked or 'nothing'} {connection.connection}"
        )

    connection.ensure_connection()
    monkeypatch.setattr(supervisor, "execute_from_command_line", report)
    # It ends at once, and the next one would write anew.
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 1000)
    group = Supervisor([("good", "web")])

    seen = folder / "seen"
    group.run(lambda: seen.exists() and bool(seen.read_text()))
    group.stop()

    assert seen.read_text() == "True nothing None"
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(supervisor.STOP_SIGNALS)


def test_signal_ends_the_supervision(supervise):
    group = supervise(("good", "web"))

    signal.raise_signal(signal.SIGTERM)

    group.run()
    assert group.stops == 1


# A busy process can miss some of the signals sent to it.
@pytest.mark.parametrize("kind", ["patient", "busy"])
def test_second_signal_is_repeated_until_the_child_stops(supervise, folder, monkeypatch, kind):
    monkeypatch.setattr(supervisor, "SIGNAL_AGAIN_AFTER", 0.1)
    group = supervise((kind, "web"))
    wait_for(lambda: starts(folder, "web"))
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)

    group.stop()

    assert group.children[0].process.exitcode == 0


def test_first_signal_is_passed_on_once(supervise, folder, settings, monkeypatch):
    monkeypatch.setattr(supervisor, "SIGNAL_AGAIN_AFTER", 0.1)
    settings.CRONTY_STOP_SECONDS = -4
    group = supervise(("patient", "web"))
    wait_for(lambda: starts(folder, "web"))
    signal.raise_signal(signal.SIGINT)

    group.stop()

    assert group.children[0].process.exitcode == -signal.SIGKILL


def test_child_that_does_not_stop_in_time_is_killed(supervise, folder, settings, caplog):
    settings.CRONTY_STOP_SECONDS = -4.9
    group = supervise(("stubborn", "web"))
    wait_for(lambda: starts(folder, "web"))

    group.stop()

    assert group.children[0].process.exitcode == -signal.SIGKILL
    assert "did not stop in time" in caplog.text


def test_stop_before_start_does_nothing():
    group = Supervisor([("good", "web")])

    group.stop()

    assert group.children[0].process is None
