import re
from datetime import UTC, datetime

import pytest
from django.template import Context, Template

from schedules.models import Job
from schedules.web.views.forecast import Ahead, Bucket

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
EVIL = "<script>\"&'</script>"


def render(tag: str, **context: object) -> str:
    return Template(f"{{% load cronty_charts %}}{{% {tag} %}}").render(Context(context))


def ahead(*names: str, dense: dict[str, int] | None = None, late: int = 0) -> Ahead:
    buckets = [Bucket(NOW + place * Ahead.QUARTER) for place in range(Ahead.QUARTERS)]
    for place, name in enumerate(names):
        buckets[place].add(name, place + 1)
    return Ahead(NOW, "Europe/Berlin", buckets, dense or {}, [], late, False)


def test_strip_counts_outcomes_for_screen_readers():
    shown = render("strip recent", recent="SSFLC")

    assert 'aria-label="Last 5 runs: 2 succeeded, 1 failed, 1 lost, 1 cancelled"' in shown
    assert shown.count("<path") == 4
    assert "No runs yet" in render("strip recent", recent="")
    assert "<script" not in render("strip recent", recent="<")


def test_next_24_hours_names_the_jobs_of_each_quarter():
    shown = render("next_24_hours ahead", ahead=ahead("Backup", "Report"))

    assert shown.count('class="bar"') == 2
    assert "<title>11:15\N{EN DASH}11:30 · 2 runs: Report (2)</title>" in shown


def test_next_24_hours_shows_overdue_and_frequent_jobs():
    dense = {f"Job {number}": 96 for number in range(5)}

    shown = render("next_24_hours ahead", ahead=ahead("Backup", dense=dense, late=1))

    assert shown.count('class="late"') == 1
    assert "<title>All day: Job 0 (96), Job 1 (96), Job 2 (96) and 2 more</title>" in shown


def test_next_24_hours_escapes_names():
    shown = render("next_24_hours ahead", ahead=ahead(EVIL, dense={EVIL: 96}))

    assert "<script" not in shown


@pytest.mark.parametrize(
    ("start", "hours_until_noon"),
    [
        pytest.param(datetime(2026, 10, 23, 22, tzinfo=UTC), 12, id="ordinary day"),
        pytest.param(datetime(2026, 3, 28, 23, tzinfo=UTC), 11, id="skipped hour"),
        pytest.param(datetime(2026, 10, 24, 22, tzinfo=UTC), 13, id="repeated hour"),
        pytest.param(datetime(2026, 10, 24, 22, 7, 30, tzinfo=UTC), 12.875, id="between two quarters"),
    ],
)
def test_hour_marks_are_at_the_hours(start: datetime, hours_until_noon: float):
    drawn = render("next_24_hours ahead", ahead=Ahead.of(Job.objects.none(), start, "Europe/Berlin"))

    place = re.search(r'<text x="([0-9.]+)%"[^>]*>12:00</text>', drawn)

    assert place
    assert float(place[1]) == pytest.approx(hours_until_noon / 24 * 100, abs=0.01)
