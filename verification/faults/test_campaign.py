"""The small form of the campaign: the real product, a handful of faults, and no violation.

On a busy machine everything takes longer, and the bounds follow: the campaign measures how long Python and Django
take to start, before and after, and multiplies by that pace what is work (see `Bounds`); what the product waits for
by design stays as it is.
"""

import os
import subprocess
import sys

import pytest
from django.conf import settings

from verification.faults.product import PROJECT

pytestmark = [pytest.mark.faults, pytest.mark.timeout(420)]

SECONDS, SEED, JOBS = 40, 20_260_101, 40
KINDS = ["kill-busy-worker", "kill-pusher", "kill-leader", "kill-web", "clock-forward", "target-500"]
# Only where there is a server to be restarted.
ALSO_ON_POSTGRESQL = ["database-restart"]


def test_a_bad_minute_leaves_every_slot_accounted_for(tmp_path):
    is_postgresql = "postgresql" in settings.DATABASES["default"]["ENGINE"]
    database = "postgresql" if is_postgresql else "sqlite"
    kinds = KINDS + (ALSO_ON_POSTGRESQL if is_postgresql else [])
    sizes = {"seconds": SECONDS, "seed": SEED, "jobs": JOBS, "rounds": 1}

    done = subprocess.run(
        [
            *(sys.executable, "-m", "verification.faults.campaign", "--short", "--database", database),
            *(word for name, value in sizes.items() for word in (f"--{name}", str(value))),
            *("--out", str(tmp_path), "--kinds", *kinds),
        ],
        cwd=PROJECT,
        env={
            name: value for name, value in os.environ.items() if not name.startswith(("CRONTY_", "DATABASE_"))
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:]
    assert "violations 0" in done.stdout
    assert list(tmp_path.glob("*.svg"))
