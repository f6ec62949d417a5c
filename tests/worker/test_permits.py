"""Permits for plain functions: file locks that the kernel frees when their holder dies."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from schedules.worker.locks import PREFIX, Permits
from tests.waiting import PATIENCE

HOLDER = """
import sys
from pathlib import Path
from schedules.worker.locks import Permits
permits = Permits(1)
permits.folder = Path(sys.argv[1])
print(permits.take() is not None, flush=True)
sys.stdin.read()
"""

LEADER = """
import os, sys
from schedules.worker.locks import Permits
permits = Permits(1)
print(permits.folder, flush=True)
if os.fork() == 0:
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def permits() -> Iterator[Permits]:
    """One permit."""
    made = Permits(1)
    yield made
    made.close()


@pytest.fixture
def holder(permits: Permits) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the permit."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(permits.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        # It ends when `with` closes its standard input.
        yield process


def end(holder: subprocess.Popen[str]) -> None:
    holder.communicate(timeout=PATIENCE)


def is_free(permits: Permits) -> bool:
    """Take the permit and give it back, if it is free."""
    handle = permits.take()
    if handle is not None:
        permits.give_back(handle)
    return handle is not None


def test_permit_is_free_again_after_use(permits):
    assert [is_free(permits), is_free(permits)] == [True, True]


def test_no_more_permits_are_given_than_there_are():
    permits = Permits(2)
    try:
        taken = [permits.take() for _ in range(3)]
        assert [handle is not None for handle in taken] == [True, True, False]
    finally:
        permits.close()


def test_permit_held_by_another_process_is_free_when_that_process_ends(permits, holder):
    assert not is_free(permits)
    end(holder)
    assert is_free(permits)


def test_killed_holder_frees_its_permit(permits, holder):
    holder.kill()
    end(holder)

    assert is_free(permits)


def test_inherited_copy_of_the_descriptor_does_not_hold_the_permit(permits, monkeypatch):
    copies = []
    close = os.close

    def copy_and_close(handle):
        copies.append(os.dup(handle))
        close(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", copy_and_close)
        assert is_free(permits)

    assert is_free(permits)
    for handle in copies:
        close(handle)


def test_permits_survive_a_cleaned_temporary_folder(permits):
    shutil.rmtree(permits.folder)

    first, second = permits.take(), permits.take()

    assert first is not None
    assert second is None
    permits.give_back(first)


def test_close_removes_the_folder_and_can_be_repeated(permits):
    assert is_free(permits)

    permits.close()
    permits.close()

    assert not permits.folder.exists()


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
        start_new_session=True,
    )
    yield process
    # Its worker, too, which may have outlived it.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def folder_and_worker(leader: subprocess.Popen[str]) -> tuple[Path, int]:
    assert leader.stdout is not None
    folder, worker = Path(leader.stdout.readline().strip()), int(leader.stdout.readline())
    os.utime(folder, (0, 0))
    return folder, worker


def start_another() -> None:
    Permits(1).close()


def test_next_start_removes_the_folder_of_a_killed_cluster(leader, temporary):
    folder, worker = folder_and_worker(leader)
    (folder / "0").touch()
    os.utime(folder, (0, 0))

    leader.kill()
    os.kill(worker, signal.SIGKILL)
    # Its output is closed when both processes are dead.
    leader.communicate(timeout=PATIENCE)
    start_another()

    assert list(temporary.iterdir()) == []


def test_folder_is_kept_while_a_worker_of_the_cluster_lives(leader):
    folder, worker = folder_and_worker(leader)

    leader.kill()
    leader.wait(PATIENCE)
    start_another()

    assert folder.exists()
    os.kill(worker, signal.SIGKILL)


def test_folder_of_a_live_leader_is_kept(leader):
    folder, worker = folder_and_worker(leader)

    os.kill(worker, signal.SIGKILL)
    start_another()

    assert folder.exists()


def test_new_folder_without_a_lock_is_kept(temporary):
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))

    start_another()

    assert folder.exists()


def test_symbolic_link_is_not_removed(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    os.utime(elsewhere, (0, 0))
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)

    start_another()

    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
def test_folder_that_somebody_else_put_in_its_place_is_refused(permits: Permits, tmp_path: Path, kind: str):
    shutil.rmtree(permits.folder)
    if kind == "link":
        permits.folder.symlink_to(tmp_path)
    elif kind == "file":
        permits.folder.touch()
    else:
        permits.folder.mkdir()
        permits.folder.chmod(0o755)

    with pytest.raises(PermissionError, match="not a private folder"):
        permits.take()

    assert list(tmp_path.iterdir()) == []
    permits.folder.rmdir() if kind == "open to others" else permits.folder.unlink()


def test_link_in_the_place_of_a_permit_is_not_followed(permits: Permits, tmp_path: Path):
    (permits.folder / "0").symlink_to(tmp_path / "target")

    with pytest.raises(OSError, match="symbolic links"):
        permits.take()

    assert not (tmp_path / "target").exists()
