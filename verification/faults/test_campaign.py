"""A short fault campaign: the real product on SQLite, two faults, no violation.

The campaign measures how slow the machine is and scales its time limits by that (see `Bounds`), so that a busy
machine fails nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from verification.faults.product import PROJECT

pytestmark = pytest.mark.faults

# No fault of this test lets a lease expire. With the short one of the long campaign, a machine that stands still for
# some seconds does: a run is taken over and repeated, as it should be, but without a fault that explains it.
SIZES = {"seconds": 8, "seed": 20_260_101, "jobs": 16, "drivers": 1, "rounds": 1, "lease": 60}
# Faults that need the whole product: tests/worker kills and freezes clusters on both databases, and restarts
# PostgreSQL under them. The long campaign (`make faults`) injects every fault on both databases.
KINDS = ["kill-web", "clock-forward"]


def test_faults_leave_every_slot_accounted_for(tmp_path: Path):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRONTY_", "DATABASE_"))
    }

    campaign = subprocess.run(
        [
            *(sys.executable, "-m", "verification.faults.campaign", "--short", "--database", "sqlite"),
            *(word for name, value in SIZES.items() for word in (f"--{name}", str(value))),
            *("--out", str(tmp_path), "--kinds", *KINDS),
        ],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert campaign.returncode == 0, campaign.stdout[-6000:]
    assert "violations 0" in campaign.stdout
    assert list(tmp_path.glob("*.svg"))
    # Even on a slow machine, some faults were injected and undone.
    assert "healed after" in campaign.stdout
