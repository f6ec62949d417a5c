"""The site served by uvicorn, with sample data, for measurements and pictures."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import databases
from tests.forks import python
from tests.waiting import PATIENCE, wait_for

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SEED = """
from schedules.models import Execution
from django.test import Client
from tests.browser.sample import fill
from tests.factories import UserFactory
owner = UserFactory(username="olga")
from tests.factories import JobFactory
few = fill(owner)
JobFactory.create_batch(max(0, {jobs} - len(few)), owner=owner)
# A page at rest: what runs would make it ask again while it is measured.
Execution.objects.filter(status="running").delete()
client = Client()
client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
print(client.cookies["sessionid"].value)
"""


@contextmanager
def served(jobs: int = 0) -> Iterator[tuple[str, str]]:
    """Start the site with at least so many jobs; yield its address and a session."""
    with tempfile.TemporaryDirectory(prefix="cronty-site-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environment = {
            **os.environ,
            "CRONTY_DATA": folder,
            "CRONTY_PORT": str(port),
            "PYTHONWARNINGS": "ignore",
        }
        databases.fill(Path(folder))
        for arguments in (["migrate", "-v0"], ["collectstatic", "--noinput", "-v0"]):
            subprocess.run([*python(), "manage.py", *arguments], cwd=ROOT, env=environment, check=True)
        seeded = subprocess.run(
            [*python(), "manage.py", "shell", "-v0", "-c", SEED.format(jobs=jobs)],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        command = [
            *python(),
            "-m",
            "uvicorn",
            "cronty_site.asgi:application",
            "--port",
            str(port),
            "--log-level",
            "warning",
        ]
        server = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(lambda: _answers(f"{address}/healthz", server))
            yield address, seeded.stdout.split()[-1]
        finally:
            server.terminate()
            server.wait(PATIENCE)


def first_job(address: str, session: str) -> str:
    """Return the path of a job's page."""
    request = urllib.request.Request(address, headers={"Cookie": f"sessionid={session}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as page:
        found = re.search(r'href="(/jobs/[^/"]+/)" title', page.read().decode())
    assert found is not None
    return found[1]


def _answers(address: str, server: "subprocess.Popen[bytes]") -> bool:
    if server.poll() is not None:
        raise RuntimeError("the site ended before it answered")
    try:
        urllib.request.urlopen(address, timeout=PATIENCE).close()
    except OSError:
        return False
    return True
