import pytest

from verification.bench import recorder
from verification.bench.peers.floor import Floor
from verification.bench.peers.measuring import Measuring, percentile


@pytest.fixture
def floor(tmp_path, monkeypatch):
    monkeypatch.setenv(recorder.FOLDER, str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return Floor(tmp_path)


def test_floor_runs_every_job_of_both_measures_after_it_was_due(floor, tmp_path):
    measuring = Measuring(floor, tmp_path)

    with floor.running("coroutine"):
        single = measuring.single("coroutine", count=3, seconds=0.1)
        burst = measuring.burst("coroutine", count=20, limit=60)

    assert (single["began"], single["early"]) == (3, 0)
    assert (burst["began"], burst["early"]) == (20, 0)
    assert burst["settled"] >= burst["p99"] >= burst["p50"] > 0


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(100, 0.99, 99), (100, 0.5, 50), (60, 0.99, 60), (1, 0.5, 1)]
)
def test_percentile_is_the_value_that_this_share_does_not_exceed(count, share, expected):
    assert percentile(range(count, 0, -1), share) == expected
