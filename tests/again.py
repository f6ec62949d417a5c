"""Run pytest; few tests that fail are run once more by themselves, and named as unsteady if they pass then.

Usage: `python -m tests.again [ARGUMENTS OF PYTEST]`, which CI uses: among so many tests with real processes and browsers one
that fails by chance would hide what all the others say. Each is printed with its first failure, and has to be mended.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
# More of them are no chance.
MOST = 10


def run(arguments: Sequence[str]) -> int:
    FAILED.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *arguments]
    code = subprocess.call(command)
    failed = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    if code != 1 or not 0 < len(failed) <= MOST:
        return code
    say(f"Once more, by themselves: {len(failed)} …")
    code = subprocess.call([*command, "--last-failed", "--last-failed-no-failures", "none", "-n", "0"])
    if code == 0:
        say("\n  ".join(["Unsteady, to be mended:", *failed]))
    return code


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
