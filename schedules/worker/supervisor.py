"""Supervisor of child processes: start them together, restart those that die, stop them together."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from django.conf import settings

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.2
ASK_AGAIN_AFTER = 0.5
# Give up on a child that dies this often within this time.
MAX_DEATHS, DEATH_WINDOW = 5, 60.0


def manage_command() -> list[str]:
    """Return the command line that runs management commands of this project, to be followed by their names."""
    script = Path(sys.argv[0])
    if script.name == "manage.py" and script.is_file():
        return [sys.executable, str(script.resolve())]
    # Django has put the settings module into the environment, which the children inherit.
    return [sys.executable, "-m", "django"]


@dataclass
class Child:
    """A management command that the supervisor keeps running."""

    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DEATHS))

    def start(self) -> None:
        # In a session of its own, so that Ctrl-C reaches only the parent, which stops its children in order.
        self.process = subprocess.Popen(  # noqa: S603  # nosec B603
            [*manage_command(), *self.arguments, "--with-parent", str(os.getpid())],
            start_new_session=True,
        )

    def has_died(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def keeps_dying(self) -> bool:
        self.deaths.append(time.monotonic())
        return len(self.deaths) == MAX_DEATHS and self.deaths[-1] - self.deaths[0] < DEATH_WINDOW


class Supervisor:
    """Keeps child processes running until a signal."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self.children = [Child(command) for command in commands]
        self.stops = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def run(self, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Watch the children until a signal or `is_done`; return False when one of them keeps dying."""
        while not self.stops and not is_done():
            time.sleep(LOOK_EVERY)  # noqa: TID251
            for child in self.children:
                if child.has_died() and not self._restart(child):
                    return False
        return True

    def stop(self) -> None:
        """Ask every child to finish; kill those that have not finished within the limit."""
        deadline = time.monotonic() + settings.CRONTY_STOP_SECONDS + 5
        asked_at: float | None = None
        while self._alive() and time.monotonic() < deadline:
            # A second Ctrl-C means stop now. Repeat it until the children end, because a busy process may see two
            # signals in a row as one.
            if asked_at is None or (self.stops > 1 and time.monotonic() - asked_at >= ASK_AGAIN_AFTER):
                asked_at = time.monotonic()
                for process in self._alive():
                    process.send_signal(signal.SIGTERM)
            time.sleep(LOOK_EVERY / 4)  # noqa: TID251
        for process in self._alive():
            logger.error("Process %s did not stop in time; killing it", process.pid)
            process.kill()
        for child in self.children:
            if child.process:
                child.process.wait()

    def _restart(self, child: Child) -> bool:
        assert child.process is not None
        name = child.arguments[0]
        if child.keeps_dying():
            logger.error("%s keeps dying; giving up", name)
            return False
        logger.error("%s ended with status %s; starting it again", name, child.process.returncode)
        child.start()
        return True

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [child.process for child in self.children if child.process and child.process.poll() is None]

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1
