"""Time limits: time in which the process stood still does not count, and nothing else is excused."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from schedules.tasks import time_limit
from schedules.tasks.time_limit import PlainTimeLimit, TimeLimit
from tests.waiting import wait_for

POLL_SECONDS, MAX_DELAY = 0.4, 0.2


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch):
    monkeypatch.setattr(time_limit, "POLL_SECONDS", POLL_SECONDS)
    monkeypatch.setattr(time_limit, "MAX_DELAY", MAX_DELAY)


def stand_still(seconds: float) -> None:
    """Keep the loop from running, as a stopped process or machine does."""
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until)


@pytest.mark.parametrize(
    "before", [0.0, POLL_SECONDS - 0.1, POLL_SECONDS + 0.1], ids=["first", "between", "second"]
)
def test_time_in_which_the_process_stood_still_does_not_count(before):
    async def scenario() -> None:
        answer = asyncio.get_running_loop().create_future()
        async with TimeLimit(before + 0.2):
            await asyncio.sleep(before)
            stand_still(0.7)
            # As after a stall: what has arrived is read in the next round of the loop.
            asyncio.get_running_loop().call_later(0.01, answer.set_result, "answer")
            assert await answer == "answer"

    asyncio.run(scenario())


def test_time_in_which_the_process_ran_counts_before_and_after_a_stall():
    async def scenario() -> float:
        begin = time.monotonic()
        with suppress(TimeoutError):
            async with TimeLimit(0.2):
                stand_still(0.7)
                await asyncio.Event().wait()
        return time.monotonic() - begin

    assert asyncio.run(scenario()) >= 0.9


def test_no_limit_and_an_error_inside_pass_through():
    async def scenario() -> None:
        limit = TimeLimit(None)
        with pytest.raises(ValueError, match="odd"):
            async with limit:
                raise ValueError("odd")
        assert not limit.expired()

    asyncio.run(scenario())


class TooLong(BaseException):
    """What the time limit of a plain function raises here."""


def stopped_in_a_fork(limit: float, then: Callable[[], None]) -> int:
    """Stop a fork for longer than its time limit, continue it with a function, and return its exit code."""
    pid = os.fork()
    if not pid:
        code = 3
        with suppress(TooLong), PlainTimeLimit(limit, TooLong):
            os.kill(os.getpid(), signal.SIGSTOP)
            then()
            code = 0
        os._exit(code)
    os.waitpid(pid, os.WUNTRACED)
    stand_still(limit + MAX_DELAY + 0.2)
    os.kill(pid, signal.SIGCONT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("limit", [POLL_SECONDS, POLL_SECONDS + 0.2], ids=["one-look", "two-looks"])
def test_plain_function_that_stood_still_for_longer_than_its_limit_goes_on(limit):
    assert stopped_in_a_fork(limit, lambda: None) == 0


def test_plain_function_that_runs_for_too_long_after_it_stood_still_is_interrupted():
    assert stopped_in_a_fork(0.2, work_without_end) == 3


def work_without_end() -> None:
    while True:
        pass


def sleep_without_end() -> None:
    time.sleep(600)  # noqa: TID251  (what a function does)


def call_a_library_that_cannot_be_interrupted() -> None:
    """Block alarms, as a call that does not return to Python does, for longer than a look."""
    while True:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        stand_still(0.2 + MAX_DELAY)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])


@pytest.mark.parametrize(
    "function", [work_without_end, sleep_without_end, call_a_library_that_cannot_be_interrupted]
)
def test_plain_function_that_runs_for_too_long_is_interrupted(function):
    begin = time.monotonic()
    try:
        with pytest.raises(TooLong), PlainTimeLimit(0.2, TooLong):
            function()
    finally:
        # The error can come between a call that blocks the alarm and the one that allows it again.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])

    assert time.monotonic() - begin >= 0.2
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
