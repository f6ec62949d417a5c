"""Verdicts on growth: a leak is reported, and a process that stays flat is accepted."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from verification.load.growth import Record, sample

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], start_new_session=True,
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(child.stdout.readline(), flush=True)
sys.stdin.read()
"""
CHILD = """
import sys
from setproctitle import setproctitle
setproctitle("cronty web --with-parent 1")
held = [open(sys.argv[1], "rb") for _ in range(int(sys.argv[2]))]
print("ready", flush=True)
sys.stdin.read()
"""


def verdicts(*series: list[float]) -> list[bool]:
    record = Record()
    for values in zip(*series, strict=True):
        record.add({"web": list(values)})
    return [verdict.is_flat for verdict in record.verdicts()]


def flat(value: float) -> list[float]:
    return [value] * 40


def test_steady_use_is_flat_whatever_the_start():
    warming_up = [10.0] * 10 + [500.0] * 30

    assert verdicts(flat(20), flat(4), warming_up) == [True, True, True]


@pytest.mark.parametrize("measure", range(3))
def test_slow_leak_is_reported(measure):
    series = [flat(300), flat(100), flat(10)]
    series[measure] = [value + 2 * place for place, value in enumerate(series[measure])]

    assert verdicts(*series) == [place != measure for place in range(3)]


def test_single_peak_is_not_a_leak():
    with_a_peak = flat(300)
    with_a_peak[-2] = 900

    assert all(verdicts(with_a_peak, flat(100), flat(10)))


def test_fluctuating_use_is_flat_unless_it_grows():
    waves = [20.0 + 12 * (place * 7 % 11 / 10) for place in range(60)]
    higher_by_chance = waves[:45] + [value + 3 for value in waves[45:]]
    growing = [value + place / 2 for place, value in enumerate(waves)]
    steady = [300.0] * 60

    assert verdicts(steady, steady, higher_by_chance) == [True, True, True]
    assert verdicts(steady, steady, growing) == [True, True, False]


def test_few_samples_are_not_judged():
    with pytest.raises(ValueError, match="at least 8"):
        verdicts([1.0] * 7, [1.0] * 7, [1.0] * 7)


@pytest.fixture
def server(tmp_path: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """A parent process with a child session that has a database file open three times."""
    file = tmp_path / "db.sqlite3"
    file.touch()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, str(file), "3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert "ready" in parent.stdout.readline()
    yield parent.pid, {"ENGINE": "django.db.backends.sqlite3", "NAME": file}
    parent.communicate()


def test_sample_counts_each_session_separately(server):
    pid, database = server

    totals = sample(pid, database)

    memory, handles, connections = totals["web"]
    assert set(totals) == {"up", "web"}
    assert memory > 1
    assert handles >= 6
    assert (connections, totals["up"][2]) == (3, 0)
