"""The task that every host runs: it records its host, attempt and slot, apart from the ledger."""

import asyncio
import os

from schedules.tasks import Run, task
from verification.bench import recorder

HOST = "HOSTS_NAME"


@task("hosts.record", description="Records that it ran.")
async def record(seconds: float = 0, *, run: Run) -> None:
    recorder.record(f"{os.environ[HOST]}/{run.attempt}/{run.key}")
    await asyncio.sleep(seconds)
