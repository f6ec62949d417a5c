"""A short fault campaign, in `make verify`: the real product on SQLite, a killed worker and a killed cluster, no violation.

The campaign measures how slow the machine is and scales its time limits by that (see `Bounds`), so that a busy
machine fails nothing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from verification.faults.product import PROJECT

pytestmark = pytest.mark.verify

# A lease so short that the rescue of what the killed processes held is a part of it.
LEASE = 5
SIZES = {"seconds": 20, "seed": 20_260_101, "jobs": 16, "drivers": 1, "rounds": 1, "lease": LEASE}
# Faults that need the whole product: tests/worker freezes clusters on both databases, and restarts PostgreSQL under them.
# The long campaign (`make faults`) injects every fault on both databases.
KINDS = ["kill-busy-worker", "kill-leader", "clock-forward"]
TRIES = 3


def test_faults_leave_every_slot_accounted_for(tmp_path: Path):
    for _ in range(TRIES):
        campaign = run_campaign(tmp_path)
        # If the machine stood still, leases expired without a fault: then a violation proves nothing.
        if campaign.returncode == 0 or longest_stall(campaign.stdout) < LEASE / 2:
            break

    assert campaign.returncode == 0, campaign.stdout[-6000:]
    assert "violations 0" in campaign.stdout
    assert list(tmp_path.glob("*.svg"))
    # Even on a slow machine, some faults were injected and undone.
    assert "healed after" in campaign.stdout


def longest_stall(report: str) -> float:
    found = re.search(r"the longest for ([\d.]+) s", report)
    return float(found[1]) if found else 0.0


def run_campaign(folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRONTY_", "DATABASE_"))
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "verification.faults.campaign", "--short", "--database", "sqlite"),
            *(word for name, value in SIZES.items() for word in (f"--{name}", str(value))),
            *("--out", str(folder), "--kinds", *KINDS),
        ],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
