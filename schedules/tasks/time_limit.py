"""Time limits for coroutines and plain functions that count only time in which their process ran."""

import asyncio
import signal
import time
from types import FrameType, TracebackType

# Seconds: how often the time is looked at, and from which delay on the process counts as standing still.
LOOK_EVERY = 1.0
HELD_UP = 0.5
# So many seconds before the deadline there is a last look.
LAST_LOOK = 0.01


class PlainTimeLimit:
    """Raises an error in a block of the main thread that runs for longer than so many seconds.

    An alarm that comes late counts half, or as much as the processor was busy: this process stood still, or a call into a
    library could not be interrupted. Without the half, many such calls would never come to an end.
    """

    def __init__(self, seconds: float, error: type[BaseException]) -> None:
        self._left, self._error = seconds, error

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._look)
        self._look_later()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _look_later(self) -> None:
        self._wait = min(LOOK_EVERY, self._left)
        self._looked_at, self._worked = time.monotonic(), time.process_time()
        signal.setitimer(signal.ITIMER_REAL, self._wait)

    def _look(self, number: int, frame: FrameType | None) -> None:
        is_late = time.monotonic() - self._looked_at > self._wait + HELD_UP
        self._left -= max(self._wait / 2, time.process_time() - self._worked) if is_late else self._wait
        if self._left < LAST_LOOK:
            raise self._error
        self._look_later()


class TimeLimit:
    """Works like `asyncio.timeout`, but moves the deadline by the time in which this process stood still.

    An answer may have arrived meanwhile: to give up on it would repeat the request.
    """

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = asyncio.timeout(seconds)

    async def __aenter__(self) -> asyncio.Timeout:
        await self._timer.__aenter__()
        self._look_later()
        return self._timer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next_look.cancel()
        await self._timer.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        return self._timer.expired()

    def _look_later(self) -> None:
        self._looked_at = self._loop.time()
        at, last_look = self._looked_at + LOOK_EVERY, (self._timer.when() or 0.0) - LAST_LOOK
        self._next_look = self._loop.call_at(
            last_look if self._looked_at < last_look < at else at, self._look
        )

    def _look(self) -> None:
        now, deadline = self._loop.time(), self._timer.when()
        if now - self._next_look.when() > HELD_UP and deadline is not None and not self._timer.expired():
            # In time, even if the deadline has passed: timers run in the order of their moments. When the loop stood
            # still is not known, only that it did since the last look.
            self._timer.reschedule(deadline + now - self._looked_at)
        self._look_later()
