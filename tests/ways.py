"""The files that a firing, a tool call and a form pass through, and the section of the documentation that lists them.

`python -m tests.ways` writes the section anew, after files were renamed, split or merged.
"""

import ast
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent

PAGE = PROJECT / "docs/explanation/architecture.md"
PACKAGES = ("schedules", "cronty_site")
# How many files each way may pass through: lower it when a way becomes shorter.
WAYS = {"One firing of a coroutine": 28, "One `schedule_job` over HTTP": 39, "One new job from the form": 41}
_FOLDERS = tuple(f"{PROJECT / package}/" for package in PACKAGES)
_WRITE = "WRITE_WAYS"


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
        """Paths as the documentation writes them: those of the app without its folder."""
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


def documented(title: str) -> list[str]:
    """Return the files that the documentation lists for a way."""
    _, _, rest = PAGE.read_text().partition(f"\n### {title}\n")
    return re.findall(r"^[0-9]+\. `([^`]+)`", rest.partition("\n#")[0], flags=re.MULTILINE)


def is_to_be_written() -> bool:
    return _WRITE in os.environ


def write(title: str, files: list[str]) -> None:
    """Replace the list of a way in the documentation."""
    before, heading, rest = PAGE.read_text().partition(f"\n### {title}\n")
    assert heading, f"{PAGE} has no section {title}"
    _, next_heading, after = rest.partition("\n#")
    lines = [f"{number}. `{file}`: {_purpose(file)}" for number, file in enumerate(files, start=1)]
    text = f"\n{len(files)} files:\n\n" + "\n".join(lines) + "\n"
    PAGE.write_text(before + heading + text + next_heading + after)


def _purpose(file: str) -> str:
    """Return the first line of a file's docstring."""
    path = PROJECT / file if file.startswith("cronty_site/") else PROJECT / "schedules" / file
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "tests/test_ways.py", "-n", "0", "-p", "no:randomly"]
    sys.exit(subprocess.call(command, cwd=PROJECT, env={**os.environ, _WRITE: "1"}))
