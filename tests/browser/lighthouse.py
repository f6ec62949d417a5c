"""Script that runs Lighthouse as on a phone, with 549 jobs: `python -m tests.browser.lighthouse`.

It needs npm and Chromium.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.site import CHROMIUM, FLAGS, ROOT, first_job, served

PATHS = ("/", "{job}", "/jobs/new/", "/runs/", "/calendar/", "/connect/", "/settings/")
JOBS = 549
BARS = {"performance": 95, "accessibility": 100, "best-practices": 100}
CACHE = ROOT / ".cache"


def scores(address: str, session: str, path: str) -> dict[str, int]:
    """Return the Lighthouse scores of one page on a phone."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            str(CACHE / "node_modules" / ".bin" / "lighthouse"),
            f"{address}{path}",
            "--form-factor=mobile",
            "--quiet",
            "--output=json",
            f"--output-path={report}",
            f"--only-categories={','.join(BARS)}",
            f"--extra-headers={json.dumps({'Cookie': f'sessionid={session}'})}",
            f"--chrome-flags=--headless {' '.join(FLAGS)} --user-data-dir={folder}/chrome",
        ]
        subprocess.run(command, check=True, env={**os.environ, "CHROME_PATH": CHROMIUM or ""})
        categories = json.loads(report.read_text(encoding="utf-8"))["categories"]
    return {name: round(categories[name]["score"] * 100) for name in BARS}


def main() -> int:
    if not (CACHE / "node_modules" / "lighthouse").is_dir():
        command = ["npm", "install", "--prefix", str(CACHE), "lighthouse@12"]
        subprocess.run(command, check=True, env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1"})
    below = False
    with served(jobs=JOBS) as (address, session):
        for path in PATHS:
            found = scores(address, session, path.format(job=first_job(address, session)))
            below |= any(found[name] < bar for name, bar in BARS.items())
            sys.stdout.write(f"{path} {found}\n")
    return int(below)


if __name__ == "__main__":
    sys.exit(main())
