"""A short fault campaign: the real product on both databases at once, a few faults, no violation.

The campaign measures how slow the machine is and scales its time limits by that (see `Bounds`), so that a busy
machine fails nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from verification.faults.product import PROJECT

pytestmark = [pytest.mark.faults, pytest.mark.timeout(420)]

SIZES = {"seconds": 8, "seed": 20_260_101, "jobs": 16, "drivers": 1, "rounds": 1}
# Faults that need the whole product, which tests/worker does not start; the long campaign (`make faults`) injects
# every fault on both databases.
KINDS = {
    "sqlite": ["kill-web", "clock-forward"],
    "postgresql": ["database-restart"],
}


def start(database: str, folder: Path) -> subprocess.Popen[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRONTY_", "DATABASE_"))
    }
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "verification.faults.campaign", "--short", "--database", database),
            *(word for name, value in SIZES.items() for word in (f"--{name}", str(value))),
            *("--out", str(folder), "--kinds", *KINDS[database]),
        ],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_faults_leave_every_slot_accounted_for(tmp_path: Path):
    campaigns = {database: start(database, tmp_path / database) for database in KINDS}

    for database, campaign in campaigns.items():
        output, _ = campaign.communicate(timeout=400)
        assert campaign.returncode == 0, output[-6000:]
        assert "violations 0" in output
        assert list((tmp_path / database).glob("*.svg"))
        # Even on a slow machine, some faults were injected and undone.
        assert "healed after" in output
