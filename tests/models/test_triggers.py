"""Conversion between triggers and the columns that store them."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.models.triggers import TriggerType, columns_of, trigger_of
from schedules.when.triggers import Cron, Interval, Once, TriggerError
from tests.factories import JobFactory

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)

TRIGGERS = [
    pytest.param(Once(NOW, "Europe/Berlin"), id="once"),
    pytest.param(Interval(5400, NOW), id="interval"),
    pytest.param(Cron("*/5 8-17 * * 1-5", "Europe/Berlin"), id="cron"),
]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_columns_of_a_trigger_describe_it(trigger):
    # Grid and zone are columns of every job, even if its trigger does not use them.
    others = {"timezone": "Europe/Berlin", "anchor_at": NOW}

    assert trigger_of(columns_of(trigger) | others) == trigger


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_columns_of_other_trigger_types_are_cleared(trigger):
    columns = columns_of(trigger)

    used = TriggerType(columns.pop("trigger_type")).column
    assert columns.pop(used)
    assert not any(columns.values())
    assert set(columns) | {used} == {kind.column for kind in TriggerType} | {"calendar_unit"}


@pytest.mark.parametrize(
    "columns",
    [
        {"trigger_type": "lunar"},
        {"trigger_type": "once", "run_at": None},
        {"trigger_type": "interval", "every": None},
        {"trigger_type": "interval", "every": timedelta(milliseconds=1500)},
        {"trigger_type": "cron", "cron": ""},
        {"trigger_type": "cron", "cron": "0 9 * * *", "timezone": "Mars/Base"},
    ],
)
def test_inconsistent_columns_have_no_trigger(columns):
    with pytest.raises(TriggerError):
        trigger_of({"timezone": "UTC"} | columns)


@pytest.mark.parametrize("anchored", [True, False])
def test_interval_without_an_anchor_starts_its_grid_at_creation(db, anchored):
    made, grid = NOW - timedelta(hours=3), NOW if anchored else None
    job = JobFactory.build(interval=True, anchor_at=grid, created_at=made, owner=None)
    job._state.adding = False

    assert job.trigger == Interval(300, grid or made)
