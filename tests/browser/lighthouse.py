"""Script that runs Lighthouse as on a phone, with 549 jobs: `python -m tests.browser.lighthouse`.

It needs npm and Chromium.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.site import CHROMIUM, FLAGS, ROOT, first_job, served

PATHS = ("/", "{job}", "/jobs/new/", "/runs/", "/calendar/", "/connect/", "/settings/")
JOBS = 549
BARS = {"performance": 95, "accessibility": 100, "best-practices": 100}
CACHE = ROOT / ".cache"


def scores(address: str, port: int, path: str) -> dict[str, int]:
    """Return the Lighthouse scores of one page on a phone, in the browser that listens at this port."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            str(CACHE / "node_modules" / ".bin" / "lighthouse"),
            f"{address}{path}",
            f"--port={port}",
            "--form-factor=mobile",
            "--quiet",
            "--output=json",
            f"--output-path={report}",
            f"--only-categories={','.join(BARS)}",
        ]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))
    # Without its session, the browser would be sent to the log-in.
    assert found["finalDisplayedUrl"] == f"{address}{path}", found["finalDisplayedUrl"]
    return {name: round(found["categories"][name]["score"] * 100) for name in BARS}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> int:
    if not (CACHE / "node_modules" / "lighthouse").is_dir():
        command = ["npm", "install", "--prefix", str(CACHE), "lighthouse@12"]
        subprocess.run(command, check=True, env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1"})
    below, port = False, free_port()
    with (
        served(jobs=JOBS) as (address, session),
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
    ):
        # Chromium ignores a Cookie among the extra headers of Lighthouse, so the browser has the session itself.
        browser = playwright.chromium.launch_persistent_context(
            folder, executable_path=CHROMIUM, args=[*FLAGS, f"--remote-debugging-port={port}"]
        )
        browser.add_cookies([{"name": "sessionid", "value": session, "url": address}])
        for path in PATHS:
            found = scores(address, port, path.format(job=first_job(address, session)))
            below |= any(found[name] < bar for name, bar in BARS.items())
            sys.stdout.write(f"{path} {found}\n")
        browser.close()
    return int(below)


if __name__ == "__main__":
    sys.exit(main())
