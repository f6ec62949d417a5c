"""Time limits for coroutines and plain functions, which do not count time in which the process was suspended."""

import asyncio
import signal
import time
from types import FrameType, TracebackType

POLL_SECONDS = 1.0
# If a timer fires later than this, in seconds, the process was suspended.
MAX_DELAY = 0.5
# The last poll is this many seconds before the deadline.
LAST_POLL = 0.01


class PlainTimeLimit:
    """Raises an error in a block of the main thread that runs for too long.

    If an alarm comes late, the process was suspended, or a call into a library could not be interrupted. Then only the
    CPU time counts, but at least half of the interval, so that a series of such calls does not run for ever.
    """

    def __init__(self, seconds: float, error: type[BaseException]) -> None:
        self._remaining, self._error = seconds, error

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._poll)
        self._poll_later()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _poll_later(self) -> None:
        self._wait = min(POLL_SECONDS, self._remaining)
        self._polled_at, self._cpu_before = time.monotonic(), time.process_time()
        signal.setitimer(signal.ITIMER_REAL, self._wait)

    def _poll(self, number: int, frame: FrameType | None) -> None:
        is_late = time.monotonic() - self._polled_at > self._wait + MAX_DELAY
        cpu_time = time.process_time() - self._cpu_before
        self._remaining -= max(self._wait / 2, cpu_time) if is_late else self._wait
        if self._remaining < LAST_POLL:
            raise self._error
        self._poll_later()


class TimeLimit:
    """Works like `asyncio.timeout`, but extends the deadline by the time in which this process was suspended.

    An answer may have arrived in that time, and giving up on it would repeat the request.
    """

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = asyncio.timeout(seconds)

    async def __aenter__(self) -> asyncio.Timeout:
        await self._timer.__aenter__()
        self._poll_later()
        return self._timer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next_poll.cancel()
        await self._timer.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        return self._timer.expired()

    def _poll_later(self) -> None:
        self._polled_at = self._loop.time()
        at, last_poll = self._polled_at + POLL_SECONDS, (self._timer.when() or 0.0) - LAST_POLL
        self._next_poll = self._loop.call_at(
            last_poll if self._polled_at < last_poll < at else at, self._poll
        )

    def _poll(self) -> None:
        now, deadline = self._loop.time(), self._timer.when()
        if now - self._next_poll.when() > MAX_DELAY and deadline is not None and not self._timer.expired():
            # In time even if the deadline has passed, because timers run in the order of their due times. All time
            # since the last poll counts as suspended: nobody knows when the suspension began.
            self._timer.reschedule(deadline + now - self._polled_at)
        self._poll_later()
