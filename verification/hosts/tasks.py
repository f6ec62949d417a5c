"""The task that every host runs: it records its slot, attempt and host, apart from the ledger."""

import asyncio
import os
import time
from pathlib import Path

from schedules.tasks.registry import Run, task

FOLDER, HOST = "HOSTS_RECORDS", "HOSTS_NAME"


@task("hosts.record", description="Records that it ran.")
async def record(seconds: float = 0, *, run: Run) -> None:
    # One file per process and one write per line, so that no two lines mix.
    path = Path(os.environ[FOLDER]) / str(os.getpid())
    with path.open("a") as file:
        file.write(f"{time.time():.6f} {os.environ[HOST]} {run.attempt} {run.key}\n")
    await asyncio.sleep(seconds)
