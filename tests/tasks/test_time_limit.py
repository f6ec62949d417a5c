"""Time limits of coroutines: time in which the process stood still does not count, and nothing else is excused."""

import asyncio
import time
from contextlib import suppress

import pytest

from schedules.tasks.time_limit import LOOK_EVERY, TimeLimit
from tests.waiting import wait_for


def stand_still(seconds: float) -> None:
    """Keep the loop from running, as a stopped process or machine does."""
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until)


@pytest.mark.parametrize(
    "before", [0.0, LOOK_EVERY - 0.1, LOOK_EVERY + 0.2], ids=["first", "between", "second"]
)
def test_time_in_which_the_process_stood_still_does_not_count(before):
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with TimeLimit(before + 0.5):
            await asyncio.sleep(before)
            stand_still(1.5)
            # As after a stall: what has arrived is read in the next round of the loop.
            asyncio.get_running_loop().call_later(0.01, answer.set_result, "answer")
            assert await answer == "answer"

    asyncio.run(scenario())


def test_time_in_which_the_process_ran_counts_before_and_after_a_stall():
    async def scenario() -> float:
        begin = time.monotonic()
        with suppress(TimeoutError):
            async with TimeLimit(0.5):
                stand_still(1.5)
                await asyncio.Event().wait()
        return time.monotonic() - begin

    assert asyncio.run(scenario()) >= 2


def test_no_limit_and_an_error_inside_pass_through():
    async def scenario() -> None:
        limit = TimeLimit(None)
        with pytest.raises(ValueError, match="odd"):
            async with limit:
                raise ValueError("odd")
        assert not limit.expired()

    asyncio.run(scenario())
