"""Charts drawn by the server."""

import re
from datetime import UTC, datetime

import pytest

from schedules.models import Job
from schedules.templatetags.charts import next_24_hours
from schedules.web.views.forecast import Ahead


@pytest.mark.parametrize(
    ("start", "hours_until_noon"),
    [
        pytest.param(datetime(2026, 10, 23, 22, tzinfo=UTC), 12, id="ordinary day"),
        pytest.param(datetime(2026, 3, 28, 23, tzinfo=UTC), 11, id="skipped hour"),
        pytest.param(datetime(2026, 10, 24, 22, tzinfo=UTC), 13, id="repeated hour"),
        pytest.param(datetime(2026, 10, 24, 22, 7, 30, tzinfo=UTC), 12.875, id="between two quarters"),
    ],
)
def test_hour_marks_stand_where_the_hours_are(start: datetime, hours_until_noon: float):
    drawn = next_24_hours(Ahead.of(Job.objects.none(), start, "Europe/Berlin"))

    place = re.search(r'<text x="([0-9.]+)%"[^>]*>12:00</text>', drawn)

    assert place
    assert float(place[1]) == pytest.approx(hours_until_noon / 24 * 100, abs=0.01)
