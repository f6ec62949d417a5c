"""The queue between the claim loop and the workers: who goes first."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from schedules.engine import Claim
from schedules.worker import package_queue, packages
from schedules.worker.context import PlainLine, PlainPackage
from schedules.worker.locks import Permits
from schedules.worker.package_queue import QueueOrder
from schedules.worker.q2 import PackageQueue
from tests.waiting import wait_for

PLAIN, COROUTINES = packages.run_plain_functions, packages.run_coroutines


@pytest.fixture
def permits() -> Iterator[Permits]:
    """One permit."""
    made = Permits(1)
    yield made
    made.close()


@pytest.fixture
def line() -> Iterator[PlainLine]:
    made = PlainLine()
    yield made
    made.close()


@pytest.fixture
def queue(line: PlainLine, permits: Permits) -> Iterator[PackageQueue]:
    made = PackageQueue(QueueOrder(line, permits))
    yield made
    made.close()
    made.join_thread()


def put(queue: PackageQueue, *tasks: str) -> None:
    """Put packages into the queue as the pusher does, and wait until a worker can take one."""
    claims = [
        Claim(number, 0, task, timedelta(seconds=5), at_most_once=False) for number, task in enumerate(tasks)
    ]
    for package in packages.pack(claims):
        queue.put(package)
    wait_for(queue._reader.poll)  # type: ignore[attr-defined]


def functions(queue: PackageQueue, count: int) -> list[Any]:
    return [queue.get()["func"] for _ in range(count)]


def test_coroutines_of_a_later_claim_go_before_plain_functions_that_wait(queue, line):
    for number in range(3):
        line.put(PlainPackage(0, [number], 5))
    put(queue, "tests.aping")

    assert functions(queue, 4) == [COROUTINES, PLAIN, PLAIN, PLAIN]


def test_plain_functions_that_have_waited_are_not_starved(queue, line, monkeypatch):
    monkeypatch.setattr(package_queue, "LET_OTHERS_FIRST", 0)
    line.put(PlainPackage(0, [1], 5))
    put(queue, "tests.aping")

    assert functions(queue, 2) == [PLAIN, COROUTINES]


def test_worker_without_a_permit_leaves_plain_functions_to_the_one_that_has_it(queue, permits):
    handle = permits.take()
    assert handle is not None
    put(queue, "tests.ping", "tests.aping")
    put(queue, "tests.aping")

    assert functions(queue, 2) == [COROUTINES, COROUTINES]

    permits.give_back(handle)
    package = queue.get()
    assert (package["func"], package["args"]) == (PLAIN, (0, [0]))
    assert package["timeout"] == 5 + packages.PLAIN_SLACK


def test_permit_is_held_while_the_package_runs(queue, permits):
    put(queue, "tests.ping")

    assert functions(queue, 1) == [PLAIN]
    assert permits.take() is None
    queue.put("STOP")
    assert queue.get() == "STOP"
    assert permits.take() is not None
