"""The peers' own environment in .cache/peers, installed from the hashed requirements of this folder."""

import hashlib
import subprocess
import sys
from pathlib import Path

from verification.bench.peers.system import PROJECT

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER = PROJECT / ".cache" / "peers"
PIP = ["install", "-q", "--disable-pip-version-check", "--no-input", "--require-hashes", "--no-deps", "-r"]


class PeersMissingError(Exception):
    """The peers could not be installed."""


def python() -> Path:
    """Return the Python of the peers' environment; install it if the requirements have changed."""
    program, stamp = FOLDER / "bin" / "python", FOLDER / ".installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return program
    print(f"Installing the peers into {FOLDER.relative_to(PROJECT)} …", flush=True)
    # This Python may have no ensurepip, and its environment no pip, as on a minimal Debian.
    pips = ([program, "-m", "pip"], [sys.executable, "-m", "pip", "--python", program])
    try:
        with_pip = _run([sys.executable, "-m", "venv", "--clear", FOLDER])
        if with_pip.returncode:
            _run([sys.executable, "-m", "venv", "--clear", "--without-pip", FOLDER])
        installed = _run([*pips[bool(with_pip.returncode)], *PIP, REQUIREMENTS])
    except OSError as error:
        raise PeersMissingError(str(error)) from error
    if installed.returncode:
        lines = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
        raise PeersMissingError(lines[0] if lines else f"pip ended with status {installed.returncode}")
    stamp.write_text(wanted)
    return program


def _run(command: list[object]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
