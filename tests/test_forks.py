"""The fork server: its processes behave like those of a fresh Python."""

import os
import select
import signal
import subprocess
from pathlib import Path

import psutil

from tests.clusters import PROJECT, is_alive
from tests.forks import SHARED, Fork, python
from tests.waiting import PATIENCE, wait_for

TALK = """
import os, sys
print(sys.argv[1:], os.environ["WORD"], os.getcwd(), sys.stdin.read())
sys.exit(7)
"""
WAIT = "import signal; signal.pause()"


def test_fork_has_the_arguments_environment_folder_and_streams_that_it_is_given(tmp_path: Path):
    done = subprocess.run(
        [*python(), "-c", TALK, "one", "two"],
        input="typed",
        env={"WORD": "said"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == (f"['one', 'two'] said {tmp_path} typed\n", "")
    assert done.returncode == 7


def test_fork_imports_nothing_of_this_checkout_by_itself(tmp_path: Path):
    done = subprocess.run(
        [*python(), "-c", "import schedules"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "No module named 'schedules'" in done.stderr


def test_signal_reaches_the_fork_whose_end_is_reported():
    waiting = subprocess.Popen(
        [*python(), "-c", f"print('ready', flush=True); {WAIT}"], stdout=subprocess.PIPE
    )
    assert waiting.stdout
    first = waiting.stdout.readline()

    waiting.terminate()

    waiting.communicate(timeout=PATIENCE)
    assert (first, waiting.returncode) == (b"ready\n", -signal.SIGTERM)


def test_fork_is_killed_with_the_object_that_stands_for_it():
    fork = Fork(os.environ[SHARED], ["-c", WAIT], cwd=PROJECT, env=os.environ)
    process = psutil.Process(fork.pid)
    assert fork.poll() is None

    fork._wire.close()

    wait_for(lambda: not is_alive(process))


def test_errors_of_a_fork_are_read_before_it_ends():
    code = f"import sys; sys.stderr.write('ready\\n'); {WAIT}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    waiting = subprocess.Popen([*python(), "-c", code], stderr=subprocess.PIPE, env=environment)
    assert waiting.stderr

    readable, _, _ = select.select([waiting.stderr], [], [], PATIENCE)

    waiting.kill()
    _, errors = waiting.communicate()
    assert readable
    assert errors == b"ready\n"
