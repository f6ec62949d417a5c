"""The supervisor of child processes: start them together, restart those that die, stop them together.

The children are forked, so that they share the memory of what this process has loaded.
"""

import gc
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from types import FrameType

from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import connections
from setproctitle import setproctitle

logger = logging.getLogger(__name__)

# Explicit, because fork is no longer the default since Python 3.14.
fork = multiprocessing.get_context("fork")
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_SECONDS = 0.2
SIGNAL_AGAIN_AFTER = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
# A child that ran this long is restarted at once, and its pauses begin anew.
STABLE_AFTER = 60.0


def growing_pauses(first: float | None = None, longest: float | None = None) -> Iterator[float]:
    """Yield endless pauses between attempts, in seconds: 1, 2, 4 and so on, up to the longest."""
    pause = first or FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, longest or LONGEST_PAUSE)


def run_in_fork(arguments: Sequence[str]) -> None:
    """Run a management command in this process, which was forked for it."""
    # In its own session, so that Ctrl-C reaches only the parent, which stops its children in order.
    os.setsid()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    setproctitle(f"cronty {' '.join(arguments)}")
    execute_from_command_line([sys.argv[0], *arguments])


@dataclass
class Child:
    """A management command that the supervisor keeps running, with growing pauses while it keeps dying."""

    arguments: Sequence[str]
    process: BaseProcess | None = None
    _started_at: float = 0.0
    _start_at: float = 0.0
    _pauses: Iterator[float] = field(default_factory=growing_pauses)

    @property
    def name(self) -> str:
        return self.arguments[0]

    def start_if_due(self) -> None:
        """Start the process if none runs and the pause is over; plan the next start if this one fails."""
        if self.process or time.monotonic() < self._start_at:
            return
        self._started_at = time.monotonic()
        # A fork must not share connections, or get a signal that is meant for its parent.
        connections.close_all()
        gc.freeze()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        process = fork.Process(
            target=run_in_fork, args=([*self.arguments, "--with-parent", str(os.getpid())],), name=self.name
        )
        try:
            process.start()
            self.process = process
        except OSError as error:
            self._start_later(f"could not be started ({error.strerror or error})")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def note_death(self) -> None:
        """If the process has ended, plan its next start: at once if it ran for long, else after a pause."""
        if self.process is None or self.process.exitcode is None:
            return
        status, self.process = self.process.exitcode, None
        self._start_later(f"ended with status {status}")

    def _start_later(self, what: str) -> None:
        if time.monotonic() - self._started_at > STABLE_AFTER:
            self._pauses = growing_pauses()
            pause = 0.0
        else:
            pause = next(self._pauses)
        self._start_at = time.monotonic() + pause
        logger.error("%s %s; starting it again %s", self.name, what, f"in {pause:g} s" if pause else "now")


class Supervisor:
    """Keeps child processes running until a signal."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self.children = [Child(command) for command in commands]
        self.stops = 0
        for number in STOP_SIGNALS:
            signal.signal(number, self._note_stop)

    def run(self, is_done: Callable[[], bool] = lambda: False) -> None:
        """Keep the children running until a signal or `is_done`."""
        while not self.stops:
            for child in self.children:
                child.note_death()
                child.start_if_due()
            if is_done():
                return
            time.sleep(POLL_SECONDS)  # noqa: TID251  (the loop's own pause)

    def stop(self) -> None:
        """Ask every child to finish; kill those that have not finished within the limit."""
        deadline = time.monotonic() + settings.CRONTY_STOP_SECONDS + 5
        signaled_at: float | None = None
        while self._alive() and time.monotonic() < deadline:
            # A second Ctrl-C means stop now. Repeat the signal until the children end, because a busy process may see two
            # signals in a row as one.
            if signaled_at is None or (
                self.stops > 1 and time.monotonic() - signaled_at >= SIGNAL_AGAIN_AFTER
            ):
                signaled_at = time.monotonic()
                for process in self._alive():
                    process.terminate()
            time.sleep(POLL_SECONDS / 4)  # noqa: TID251  (waits for processes to end)
        for process in self._alive():
            logger.error("Process %s did not stop in time; killing it", process.pid)
            process.kill()
        for child in self.children:
            if child.process:
                child.process.join()

    def _alive(self) -> list[BaseProcess]:
        return [child.process for child in self.children if child.process and child.process.is_alive()]

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1
