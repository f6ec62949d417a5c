"""The line of plain functions in shared memory."""

import os
import signal
from collections.abc import Iterator

import pytest

from schedules.worker import context
from schedules.worker.context import PlainLine, PlainPackage

FIRST, SECOND = PlainPackage(0, [1, 2, 3], 90), PlainPackage(2, [4], 31)


@pytest.fixture
def line() -> Iterator[PlainLine]:
    made = PlainLine()
    yield made
    made.close()


def in_another_process(step) -> None:
    """Run a step in a forked process, which is killed afterwards."""
    pid = os.fork()
    if not pid:
        step()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def test_packages_are_taken_in_order_by_any_process(line):
    in_another_process(lambda: [line.put(FIRST), line.put(SECOND)])

    assert line.execution_ids() == [1, 2, 3, 4]
    assert [line.take(), line.take(), line.take()] == [FIRST, SECOND, None]


def test_what_another_process_has_taken_is_gone(line):
    line.put(FIRST)
    line.put(SECOND)

    in_another_process(line.take)

    assert (len(line), line.take()) == (1, SECOND)


def test_process_that_is_killed_while_it_changes_the_line_locks_nobody_out(line):
    line.put(FIRST)

    def die_inside() -> None:
        line._lock().__enter__()

    in_another_process(die_inside)

    assert line.take() == FIRST


def test_full_line_takes_no_more(line, monkeypatch):
    monkeypatch.setattr(context, "LINE_LENGTH", 2)

    assert [line.put(FIRST) for _ in range(3)] == [True, True, False]
    line.take()
    assert line.put(SECOND)
    assert [line.take(), line.take()] == [FIRST, SECOND]


def test_cleared_line_is_empty(line):
    line.put(FIRST)

    assert line.clear() == [1, 2, 3]
    assert (line.take(), line.seconds_waiting) == (None, 0.0)
