"""The fast reader of PostgreSQL's moments."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from psycopg.pq import Format

from schedules.engine.sql.postgresql import UtcLoader

MOMENTS = [
    datetime(2026, 2, 4, 9, 0, tzinfo=UTC),
    datetime(2026, 2, 4, 9, 0, 0, 120_000, tzinfo=UTC),
    datetime(2026, 2, 4, 9, 0, 0, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite stores moments as text")
@pytest.mark.django_db
def test_moments_are_read_as_they_were_written():
    with connection.cursor() as cursor:
        cursor.execute("SELECT unnest(%s::timestamptz[]), %s::timestamptz[]", [MOMENTS, MOMENTS])
        rows = cursor.fetchall()

    assert [moment for moment, _ in rows] == MOMENTS
    assert {moment.tzinfo for moment, _ in rows} == {UTC}
    assert rows[0][1] == MOMENTS
    assert connection.connection.adapters.get_loader(1184, Format.TEXT) is UtcLoader
