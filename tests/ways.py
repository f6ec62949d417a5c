"""The files that a firing, a tool call and a form pass through."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("schedules", "cronty_site")
# How many files each way may pass through: lower it when a way becomes shorter.
WAYS = {"One firing of a coroutine": 26, "One `schedule_job` over HTTP": 41, "One new job from the form": 43}
_FOLDERS = tuple(f"{PROJECT / package}/" for package in PACKAGES)


class Way:
    """Notes which files of the project have code that runs, in the order of their first call, in every thread.

    A thread is seen if it starts inside the block of `watching`.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """How often each function was called, by its qualified name."""
        self._files: dict[str, None] = {}
        self._is_recorded = False

    @property
    def files(self) -> list[str]:
        """Paths in the order of their first call; those of the app without its folder."""
        return [str(Path(file).relative_to(PROJECT)).removeprefix("schedules/") for file in self._files]

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self._is_recorded = False

    def record(self) -> None:
        """Begin to note files: whatever is done once per process lies behind."""
        self._is_recorded = True

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note files only inside the block."""
        self.record()
        try:
            yield
        finally:
            self._is_recorded = False

    def stop(self) -> None:
        """Ignore what follows, such as the end of a server."""
        self._is_recorded = False

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._is_recorded and event == "call" and frame.f_code.co_name != "<module>":
            name = frame.f_code.co_filename
            if name.startswith(_FOLDERS):
                self._files.setdefault(name)
                self.calls[frame.f_code.co_qualname] += 1
