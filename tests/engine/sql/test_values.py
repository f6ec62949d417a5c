"""Values for the drivers, compared with those of the ORM."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection

from schedules.engine.sql.values import adapter_of, array, aware, format_moment, integers, parse_moment, parts
from schedules.models import Execution

NOON = datetime(2026, 2, 4, 12, 0, tzinfo=UTC)
MOMENTS = [
    pytest.param(NOON, id="whole second"),
    pytest.param(NOON + timedelta(microseconds=5), id="microseconds"),
    pytest.param(NOON.astimezone(timezone(timedelta(hours=-5, minutes=-30))), id="another zone"),
]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL takes moments as they are")
@pytest.mark.parametrize("moment", MOMENTS)
def test_moment_is_stored_as_the_orm_stores_it(moment):
    assert format_moment(moment) == str(connection.ops.adapt_datetimefield_value(moment))


@pytest.mark.parametrize("moment", MOMENTS)
def test_stored_moment_is_read_in_utc(moment):
    found = parse_moment(format_moment(moment))

    assert (found, found.tzinfo) == (moment, UTC)


def test_zone_is_added_only_where_it_is_missing():
    elsewhere = NOON.astimezone(timezone(timedelta(hours=1)))

    assert aware(NOON.replace(tzinfo=None)) == NOON
    assert aware(elsewhere) is elsewhere


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lateness", timedelta(days=1, microseconds=7)),
        ("lateness", None),
        ("finished_at", None),
        ("error", 'a "b"'),
        ("attempt", 3),
    ],
)
def test_value_is_converted_as_the_orm_converts_it(column, value):
    field = Execution._meta.get_field(column)

    adapt = adapter_of(field)
    assert (adapt(value) if adapt else value) == field.get_db_prep_save(value, connection)


def test_array_escapes_texts_and_counts_microseconds():
    values = [None, 7, "NULL", 'a "b" \\ c', "{1,2}", timedelta(seconds=-1)]

    assert array(values) == r'{NULL,"7","NULL","a \"b\" \\ c","{1,2}","-1000000 microseconds"}'


def test_only_integers_are_written_into_a_statement():
    assert integers([3, 1]) == "3,1"
    with pytest.raises(ValueError, match="invalid literal"):
        integers(["1); DROP TABLE schedules_job"])  # type: ignore[list-item]


def test_parts_have_all_rows_in_order():
    assert list(parts([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
