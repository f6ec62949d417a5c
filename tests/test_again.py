"""A suite that runs once more what has failed, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import PROJECT

STEADY = "def test_steady(): pass\n"
WRONG = "def test_wrong(): assert 1 == 2\n"
UNSTEADY = """
from pathlib import Path
def test_unsteady():
    seen = Path("seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there
"""
MANY = "import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_many(n): assert n < 0\n"


@pytest.mark.verify
@pytest.mark.parametrize(
    ("text", "code", "said", "left_out"),
    [
        (STEADY, 0, "1 passed", "Once more"),
        (STEADY + UNSTEADY, 0, "Unsteady, to be mended:\n  test_it.py::test_unsteady\n", "2 passed"),
        (STEADY + WRONG, 1, "Once more, by themselves: 1", "Unsteady"),
        (WRONG + UNSTEADY, 1, "1 failed, 1 passed", "Unsteady"),
        (MANY, 1, "11 failed", "Once more"),
        ("", 5, "no tests ran", "Once more"),
        ("import nothing_of_this_name\n", 2, "1 error", "Once more"),
    ],
)
def test_what_fails_by_chance_is_run_again_and_named(tmp_path: Path, text, code, said, left_out):
    (tmp_path / "test_it.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(PROJECT), "PYTEST_ADDOPTS": "-p no:django -p no:randomly"}

    ended = subprocess.run(
        [sys.executable, "-m", "tests.again", "-p", "no:schemathesis"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, said in ended.stdout, left_out in ended.stdout) == (code, True, False), ended
    # What failed is shown even if it passes later.
    assert ("assert was_there" in ended.stdout) == (UNSTEADY in text)
