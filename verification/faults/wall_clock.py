"""A wrong wall clock for a process and its children, by a small library that is built and preloaded."""

import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def no_wall_clock() -> str:
    """Return why no process can have a wrong wall clock here, or an empty text."""
    if sys.platform != "linux":
        return "libraries are preloaded on Linux only"
    return "" if shutil.which("cc") else "there is no C compiler (cc)"


def wrong_clock(folder: Path, seconds: int) -> dict[str, str]:
    """Build the library in this folder, and return the environment of a process whose clock is wrong by so much."""
    library = folder / "wall_clock.so"
    if not library.exists():
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-O2",
            "-Wall",
            "-Werror",
            "-o",
            str(library),
            str(SOURCE),
            "-ldl",
        ]
        subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(seconds)}
