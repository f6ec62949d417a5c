"""The record of stalls: what holds up a program that only sleeps, and nothing else."""

import time
from dataclasses import replace

import psutil

from tests.clusters import title_of
from tests.waiting import wait_for
from verification.faults import report, stalls
from verification.faults.excuses import Bounds
from verification.faults.records import History


def test_core_that_stood_still_is_recorded(tmp_path):
    with stalls.watching(tmp_path):
        watches = [child for child in psutil.Process().children() if stalls.__name__ in title_of(child)]
        wait_for(lambda: len(list(tmp_path.glob("stalls-*"))) == len(watches))
        began_at = time.time()
        watches[0].suspend()
        wait_for(lambda: time.time() > began_at + 2 * stalls.WORTH_A_RECORD)
        watches[0].resume()

        wait_for(lambda: any(at + seconds > began_at for at, seconds in stalls.stalls_in(tmp_path)))

    assert not any(map(psutil.Process.is_running, watches))


def test_report_names_the_stalls():
    quiet = History()
    stalled = replace(quiet, stalls=[(1.0, 0.6), (2.0, 2.9)])

    assert "stood still: never" in report.table(quiet, Bounds(), [])
    assert "stood still: 2 times for more than 0.5 s, the longest for 2.9 s" in report.table(
        stalled, Bounds(), []
    )


def test_stalls_are_saved_with_the_records(tmp_path):
    history = History(stalls=[(1.0, 0.6)])
    report.save(history, tmp_path / "records.json")

    assert report.load(tmp_path / "records.json").stalls == history.stalls
