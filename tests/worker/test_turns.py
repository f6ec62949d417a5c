import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from schedules.worker.heartbeat_watch import LOCKS, stopped_holder
from schedules.worker.locks import Turns
from tests.waiting import PATIENCE

only_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL locks rows, not the database"
)


@contextmanager
def child_with_turn(turns: Turns) -> Iterator[int]:
    """Fork a process that holds the turn until it is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with turns.take():
            os.write(writer, b"x")
            signal.pause()
        os._exit(0)
    try:
        os.read(reader, 1)
        yield child
    finally:
        os.close(reader)
        os.close(writer)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@only_sqlite
def test_writers_take_turns(tmp_path):
    turns, order = Turns(tmp_path), []

    def write() -> None:
        with turns.take():
            order.append("second")

    with turns.take():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join(PATIENCE)

    assert order == ["first", "second"]


@only_sqlite
def test_turn_of_a_killed_process_is_free(tmp_path):
    turns = Turns(tmp_path)
    with child_with_turn(turns):
        threads = [threading.Thread(target=lambda: turns.take().__enter__())]
        threads[0].start()
    threads[0].join(PATIENCE)

    assert not threads[0].is_alive()


@only_sqlite
def test_turn_is_free_although_a_fork_knows_its_file(tmp_path):
    turns = Turns(tmp_path)
    with turns.take():
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        thread = threading.Thread(target=lambda: turns.take().__enter__())
        thread.start()
        thread.join(PATIENCE)
        is_waiting = thread.is_alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert not is_waiting


@only_sqlite
def test_claim_loop_goes_ahead_without_a_turn_that_is_not_given_back(tmp_path):
    turns = Turns(tmp_path)
    with turns.take():
        begin = time.perf_counter()
        with turns.take(0.01):
            waited = time.perf_counter() - begin

    assert waited >= 0.01


@only_sqlite
@pytest.mark.skipif(not LOCKS.exists(), reason="this system does not tell who holds a lock")
def test_stopped_process_with_the_turn_is_found(tmp_path):
    turns, database = Turns(tmp_path), tmp_path / "database"
    with child_with_turn(turns) as child:
        assert stopped_holder(database, turns.file, os.getpid()) is None

        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)

        assert stopped_holder(database, turns.file, os.getpid()) == child
        assert stopped_holder(database, turns.file, parent=1) is None


@only_sqlite
def test_writers_go_ahead_if_the_folder_was_cleaned_up():
    turns, written = Turns(Path("/nowhere/at/all")), []

    with turns.take(), turns.take():
        written.append("both")

    assert written == ["both"]
    assert not turns.file.exists()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite needs turns")
def test_other_databases_need_no_turns(tmp_path):
    turns = Turns(tmp_path)

    with turns.take(), turns.take():
        assert not turns.file.exists()
