"""Tests on every Python from 3.11 on: `make pythons`.

For each Python found it creates a virtual environment, then runs `manage.py up --check`, the tests that start threads and
processes, and a stop under load. It needs the standard library only.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache" / "pythons"
LOCK = PROJECT / "requirements-dev.txt"
OLDEST = (3, 11)
NAMES = [f"python3.{minor}" for minor in range(OLDEST[1], 16)]
TESTS = [
    "tests/worker/test_cluster.py",
    "tests/worker/test_packages_in_a_worker.py",
    "tests/worker/test_parent_death.py",
    "tests/worker/test_rolling_restart.py",
    "tests/worker/test_supervisor.py",
    "tests/management/test_commands.py",
    "tests/tasks/processes",
]

Version = tuple[int, ...]


def find_pythons() -> dict[Version, str]:
    """Find interpreters in pyenv and on the path: the newest release of each minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = (shutil.which(name) for name in NAMES)
    candidates = [str(path) for path in pyenv.glob("*/bin/python3")] + [path for path in on_path if path]
    found: dict[Version, str] = {}
    for candidate in candidates:
        version = version_of(candidate)
        if version and version[:2] >= OLDEST:
            known = next((other for other in found if other[:2] == version[:2]), (0,))
            if version > known:
                found.pop(known, None)
                found[version] = candidate
    return dict(sorted(found.items()))


def version_of(python: str) -> Version | None:
    """Return the version of an interpreter, or None for a shim without a Python behind it."""
    question = "import json, sys; print(json.dumps(sys.version_info[:3]))"
    try:
        answer = subprocess.run([python, "-c", question], capture_output=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(json.loads(answer.stdout))


def install(python: str, version: Version) -> Path:
    """Create a virtual environment from the lock file, unless it exists; return its interpreter."""
    folder = CACHE / ".".join(map(str, version))
    stamp, wanted = folder / ".installed", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    own = folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        pip = [str(own), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
        for command in (
            [python, "-m", "venv", "--clear", str(folder)],
            # The lock names every package. An older pip that resolves them takes a newer release for one with extras.
            [*pip, "--require-hashes", "--no-deps", "--no-compile", "-r", str(LOCK)],
        ):
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        stamp.write_text(wanted)
    return own


def steps(python: Path, folder: str, *, only_tests: bool) -> dict[str, list[str]]:
    tests = [str(python), "-m", "pytest", *TESTS, "-p", "no:cacheprovider", "--basetemp", f"{folder}/tests"]
    if only_tests:
        return {"tests": tests}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "up --check": [str(python), "manage.py", "up", "--check", "--port", str(port)],
        "tests": tests,
        "stop under load": [str(python), "-m", "verification.stop_under_load"],
    }  # fmt: skip


def prove(python: Path, version: str, *, only_tests: bool) -> bool:
    """Run every step on one Python; return whether all passed."""
    is_good = True
    with tempfile.TemporaryDirectory(prefix="cronty-pythons-") as folder:
        environment = os.environ | {"CRONTY_DATA": folder}
        environment.pop("DATABASE_URL", None)
        for name, command in steps(python, folder, only_tests=only_tests).items():
            began = time.monotonic()
            done = subprocess.run(
                command,
                cwd=PROJECT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            verdict = "passed" if done.returncode == 0 else f"FAILED with status {done.returncode}"
            say(f"Python {version}: {name} {verdict} ({time.monotonic() - began:.0f} s)")
            if done.returncode or name == "stop under load":
                say(re.sub(r"(?m)^", "    ", done.stdout.strip()))
            is_good &= done.returncode == 0
    return is_good


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> int:
    parser = ArgumentParser(description="Prove that Cronty works on every Python from 3.11 on.")
    parser.add_argument("--others", action="store_true", help="leave out the Python that runs this program")
    parser.add_argument(
        "--only-tests", action="store_true", help="leave out the start and the stop under load"
    )
    options = parser.parse_args()
    found = find_pythons()
    if options.others:
        found = {version: path for version, path in found.items() if version[:2] != sys.version_info[:2]}
    if not found or (not options.others and len(found) == 1):
        say(f"No other Python from 3.11 on was found; `make test` covers {sys.version.split()[0]}.")
        return 0
    # Two at a time: most of the tests wait for other processes.
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(partial(try_python, only_tests=options.only_tests), found.items()))
    return 0 if all(results) else 1


def try_python(found: tuple[Version, str], *, only_tests: bool) -> bool:
    """Install into an environment of one Python and run every step there; return whether all passed."""
    version, python = found
    began, name = time.monotonic(), ".".join(map(str, version))
    say(f"Python {name}: installing …")
    try:
        is_good = prove(install(python, version), name, only_tests=only_tests)
    except subprocess.CalledProcessError as error:
        say(f"Python {name}: FAILED to install\n{error.stdout}")
        is_good = False
    say(f"Python {name}: {time.monotonic() - began:.0f} s in all")
    return is_good


if __name__ == "__main__":
    sys.exit(main())
