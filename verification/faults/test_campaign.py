"""Short fault campaigns of the real product on SQLite: in `make test` the wings, in `make verify` killed processes, too.

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

# A lease so short that the rescue of what the killed processes held is a part of it.
LEASE = 5
SIZES = {"seconds": 100, "seed": 20_260_101, "jobs": 16, "drivers": 1, "rounds": 1, "lease": LEASE}
# Faults that need the whole product: tests/worker freezes clusters on both databases, and restarts PostgreSQL under them.
# The long campaign (`make faults`) injects every fault on both databases.


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(["kill-all", "receiver-deaf"], id="wings", marks=pytest.mark.verify),
        pytest.param(
            ["kill-busy-worker", "kill-leader", "rolling-restart", "clock-forward"],
            id="processes",
            marks=pytest.mark.verify,
        ),
    ],
)
def test_faults_leave_every_slot_accounted_for(tmp_path: Path, kinds: list[str]):
    campaign = run_campaign(tmp_path, kinds)

    if campaign.returncode and (stall := longest_stall(campaign.stdout)) >= LEASE / 2:
        pytest.skip(f"The machine stood still for {stall:.0f} s, so that leases expired without a fault.")
    assert campaign.returncode == 0, campaign.stdout[-6000:]
    assert "violations 0" in campaign.stdout
    # Even on a slow machine, some faults were injected and undone.
    assert "healed after" in campaign.stdout


def longest_stall(report: str) -> float:
    found = re.search(r"the longest for ([\d.]+) s", report)
    return float(found[1]) if found else 0.0


def run_campaign(folder: Path, kinds: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CRONTY_", "DATABASE_"))
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "verification.faults.campaign", "--short", "--database", "sqlite"),
            *(word for name, value in SIZES.items() for word in (f"--{name}", str(value))),
            *("--out", str(folder), "--kinds", *kinds),
        ],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
