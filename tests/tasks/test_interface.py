"""What a task gets and may answer."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from schedules.tasks.interface import Final, RetryLater, Run

RUN = Run.without_job(datetime(2026, 2, 4, 9, tzinfo=UTC), owner_id=1, timeout=60.0)


def test_retry_later_has_its_delay():
    assert RetryLater("Busy").after is None
    assert RetryLater("Busy", after=timedelta(seconds=5)).after == timedelta(seconds=5)
    assert str(RetryLater("Busy")) == "Busy"


@pytest.mark.parametrize("after", ["2", Decimal(2), datetime(2026, 2, 4, tzinfo=UTC)])
def test_retry_later_refuses_a_delay_that_is_no_duration(after):
    with pytest.raises(TypeError, match="a timedelta or in seconds"):
        RetryLater("Busy", after=after)


def test_signing_key_stays_out_of_logs():
    assert "hush" not in repr(replace(RUN, signing_keys=partial(tuple, ["hush"])))


def test_run_without_a_job_has_no_secrets():
    assert asyncio.run(RUN.secrets([])) == {}
    with pytest.raises(Final, match="There is no secret KEY"):
        asyncio.run(RUN.secrets(["KEY"]))
