"""Tables that fit the terminal."""

from datetime import timedelta

import pytest
from rich.cells import cell_len

from schedules import clock
from tests.factories import ExecutionFactory, JobFactory

LONG = {
    "latin": "A name of ninety characters " * 3 + "at last",
    "one word": "x" * 90,
    "CJK": "夜間バックアップ" * 11,
    "emoji": "🎉🚀" * 45,
}
WIDTHS = [60, 120]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LONG.values(), ids=LONG)
def test_long_name_gives_way_to_everything_else(cronty, owner, monkeypatch, name, width):
    now = clock.now()
    job = JobFactory(
        pk=1_234_567,
        owner=owner,
        name=name,
        cron="30 8 1,15 * *",
        next_run_at=now + timedelta(minutes=45),
        last_run_at=now - timedelta(minutes=50),
        recent="S",
    )
    monkeypatch.setenv("COLUMNS", str(width))

    lines = cronty("jobs").out.splitlines()

    words = " ".join(lines).split()
    schedule = ["On", "the", "1st", "and", "15th", "of", "every", "month", "at", "08:30"]
    assert max(map(cell_len, lines)) <= width
    assert lines[0].split() == ["#", "name", "schedule", "next", "last", "status"]
    assert {str(job.pk), *schedule, "in", "45", "min", "succeeded", "50", "ago", "pending"} <= set(words)
    assert "…" in lines[1]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("error", LONG.values(), ids=LONG)
def test_long_error_gives_way_to_everything_else(cronty, owner, monkeypatch, error, width):
    run = ExecutionFactory(
        pk=1_234_567,
        job=JobFactory(owner=owner, name=LONG["CJK"]),
        owner=owner,
        # It is the same day in the zone of the job.
        scheduled_for=clock.now().replace(hour=12),
        status="cancelled",
        error=error,
        started_at=clock.now() - timedelta(minutes=61),
        finished_at=clock.now(),
    )
    monkeypatch.setenv("COLUMNS", str(width))

    lines = cronty("logs").out.splitlines()

    words = " ".join(lines).split()
    assert max(map(cell_len, lines)) <= width
    assert lines[0].split() == ["#", "at", "status", "took", "what"]
    assert {str(run.pk), "cancelled", f"{run.scheduled_for:%Y-%m-%d}"} <= set(words)
    assert "…" in lines[1]


def test_terminal_that_is_too_narrow_still_shows_every_column(cronty, owner, monkeypatch):
    job = JobFactory(owner=owner, name=LONG["latin"])
    monkeypatch.setenv("COLUMNS", "20")

    out = cronty("jobs").out

    assert {str(job.pk), "pending", "status", "schedule"} <= set(out.split())
