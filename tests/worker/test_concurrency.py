"""How many plain functions run at once: locks that the dead cannot hold."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedules.worker import concurrency

HOLDER = """
import sys
from pathlib import Path
from schedules.worker import concurrency
concurrency._folder, concurrency._count = Path(sys.argv[1]), 1
with concurrency.lane(5) as is_free:
    print(is_free, flush=True)
    sys.stdin.read()
"""

LEADER = """
import os, sys
from schedules.worker import concurrency
concurrency.open_lanes(1)
print(concurrency._folder, flush=True)
if os.fork() == 0:
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    concurrency.open_lanes(1)
    assert concurrency._folder is not None
    yield concurrency._folder
    concurrency.close_lanes()


def hold(folder: Path) -> subprocess.Popen[str]:
    """Let another process take the lane."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    return holder


def end(holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=10)


def test_lane_is_free_again_after_use(folder):
    for _ in range(2):
        with concurrency.lane(0) as is_free:
            assert is_free


def test_there_are_as_many_lanes_as_were_opened():
    concurrency.open_lanes(2)
    try:
        with concurrency.lane(0) as first, concurrency.lane(0) as second, concurrency.lane(0) as third:
            assert (first, second, third) == (True, True, False)
    finally:
        concurrency.close_lanes()


def test_lane_is_freed_by_a_function_that_fails(folder):
    with pytest.raises(RuntimeError), concurrency.lane(0):
        raise RuntimeError

    with concurrency.lane(0) as is_free:
        assert is_free


def test_lane_of_another_process_is_taken_until_that_ends(folder):
    holder = hold(folder)

    with concurrency.lane(0.01) as is_free:
        assert not is_free
    end(holder)
    with concurrency.lane(0) as is_free:
        assert is_free


def test_killed_holder_frees_its_lane(folder):
    holder = hold(folder)

    holder.kill()
    end(holder)

    with concurrency.lane(0) as is_free:
        assert is_free


def test_whoever_waits_gets_the_lane_when_it_is_freed(folder):
    holder = hold(folder)
    assert holder.stdin is not None
    holder.stdin.close()

    with concurrency.lane(10) as is_free:
        assert is_free
    holder.stdin = None
    end(holder)


def test_copy_of_the_handle_left_behind_does_not_hold_the_lane(folder, monkeypatch):
    copies = []
    close = os.close

    def copy_and_close(handle):
        copies.append(os.dup(handle))
        close(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", copy_and_close)
        with concurrency.lane(0):
            pass

    with concurrency.lane(0) as is_free:
        assert is_free
    for handle in copies:
        close(handle)


def test_lanes_survive_a_tidied_temporary_folder(folder):
    shutil.rmtree(folder)

    with concurrency.lane(0) as first, concurrency.lane(0) as second:
        assert (first, second) == (True, False)


def test_closing_leaves_nothing_behind_and_may_be_done_twice(folder):
    with concurrency.lane(0):
        pass

    concurrency.close_lanes()
    concurrency.close_lanes()

    assert not folder.exists()


# Folders that a killed cluster left behind


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory that no other cluster uses."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def leader(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A cluster's leader with one worker, started long ago."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    yield process
    process.kill()
    process.communicate()


def folder_and_worker(leader: subprocess.Popen[str]) -> tuple[Path, int]:
    assert leader.stdout is not None
    folder, worker = Path(leader.stdout.readline().strip()), int(leader.stdout.readline())
    os.utime(folder, (0, 0))
    return folder, worker


def start_another() -> None:
    concurrency.open_lanes(1)
    concurrency.close_lanes()


def test_next_start_removes_the_folder_of_a_killed_cluster(leader, temporary):
    folder, worker = folder_and_worker(leader)
    (folder / "0").touch()
    os.utime(folder, (0, 0))

    leader.kill()
    os.kill(worker, signal.SIGKILL)
    # Both ends of its output are closed when both are dead.
    leader.communicate(timeout=10)
    start_another()

    assert list(temporary.iterdir()) == []


def test_folder_is_kept_while_a_worker_of_the_cluster_lives(leader):
    folder, worker = folder_and_worker(leader)

    leader.kill()
    leader.wait(10)
    start_another()

    assert folder.exists()
    os.kill(worker, signal.SIGKILL)


def test_folder_of_a_living_leader_is_kept(leader):
    folder, worker = folder_and_worker(leader)

    os.kill(worker, signal.SIGKILL)
    start_another()

    assert folder.exists()


def test_folder_that_is_just_being_made_is_kept(temporary):
    folder = Path(tempfile.mkdtemp(prefix=concurrency.PREFIX))

    start_another()

    assert folder.exists()


def test_link_that_looks_like_a_folder_is_left_alone(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    os.utime(elsewhere, (0, 0))
    (temporary / f"{concurrency.PREFIX}link").symlink_to(elsewhere)

    start_another()

    assert (elsewhere / "precious").exists()
