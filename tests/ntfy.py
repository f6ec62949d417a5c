"""A real ntfy server on loopback, fetched once into .cache/ntfy: `pytest_plugins = ["tests.ntfy"]`."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.waiting import PATIENCE

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "ntfy"

# Ignore the environment's proxies: this is loopback.
_loopback = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class Ntfy:
    """A running server and the token of its one user."""

    url: str
    token: str

    def messages(self, topic: str) -> list[dict[str, Any]]:
        """Return the messages of a topic, oldest first."""
        request = Request(
            f"{self.url}/{topic}/json?poll=1&since=all", headers={"Authorization": f"Bearer {self.token}"}
        )
        with _loopback.open(request) as answer:
            return [json.loads(line) for line in answer]


@pytest.fixture(scope="session")
def ntfy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ntfy]:
    """An open server without a rate limit."""
    with serve(tmp_path_factory.mktemp("ntfy")) as server:
        yield server


@pytest.fixture
def start_ntfy(tmp_path: Path) -> Callable[..., AbstractContextManager[Ntfy]]:
    """Start a server with options of its own, for a `with` block."""
    return partial(serve, tmp_path)


@contextmanager
def serve(folder: Path, **options: str | int) -> Iterator[Ntfy]:
    """Run a server in the folder; options overwrite those of the configuration file."""
    binary = _binary()
    port = _free_port()
    config = folder / "server.yml"
    config.write_text(_config(folder, port, options))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary, "serve", "-c", config], stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url, process)
        yield Ntfy(url, _make_token(binary, config))
    finally:
        process.terminate()
        process.wait()


def _binary() -> Path:
    found = CACHE / "ntfy"
    if not found.exists() and (installed := shutil.which("ntfy")):
        found = Path(installed)
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                _fetch()
    return found


def _fetch() -> None:
    refusal = CACHE / "refused"
    if refusal.exists() and time.time() - refusal.stat().st_mtime < 3600:
        pytest.skip(refusal.read_text())
    fetched = subprocess.run(
        ["/bin/sh", HERE / "bin" / "get-ntfy.sh", CACHE], capture_output=True, text=True, timeout=120
    )
    if fetched.returncode != 0:
        # Remember the failure for an hour, so that other test workers do not wait for it again.
        refusal.write_text(f"no ntfy server: {fetched.stderr.strip()[-300:]}")
        pytest.skip(refusal.read_text())


def _config(folder: Path, port: int, options: dict[str, str | int]) -> str:
    settings = {
        "base-url": f"http://127.0.0.1:{port}",
        "listen-http": f"127.0.0.1:{port}",
        "cache-file": f"{folder}/cache.db",
        "auth-file": f"{folder}/user.db",
        "auth-default-access": "read-write",
        "visitor-request-limit-exempt-hosts": "127.0.0.1",
    } | {name.replace("_", "-"): value for name, value in options.items()}
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with _loopback.open(f"{url}/v1/health", timeout=PATIENCE):
                return
        except OSError:
            # Pause for a moment; end early if the server ends.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
    raise RuntimeError("the ntfy server did not start")


def _make_token(binary: Path, config: Path) -> str:
    environment = {**os.environ, "NTFY_PASSWORD": "correct horse"}
    for command in (
        ["user", "-c", config, "add", "--role=admin", "ada"],
        ["token", "-c", config, "add", "ada"],
    ):
        done = subprocess.run([binary, *command], env=environment, capture_output=True, text=True, check=True)
    return next(word for word in (done.stdout + done.stderr).split() if word.startswith("tk_"))
