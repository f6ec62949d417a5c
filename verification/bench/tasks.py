"""Trivial tasks that only record when their body began, so that the benchmark measures the engine."""

import time
from datetime import UTC, datetime, timedelta

from schedules.tasks import Run, task
from verification.bench import recorder

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@task("bench.coroutine", description="A trivial coroutine.")
async def coroutine(*, run: Run) -> None:
    recorder.record(_nanoseconds(run.scheduled_for))


@task("bench.plain", description="A trivial plain function.")
def plain(*, run: Run) -> None:
    recorder.record(_nanoseconds(run.scheduled_for))


@task("bench.short", description="A plain function that takes 20 ms.")
def short() -> None:
    recorder.record("short")
    time.sleep(0.02)


def _nanoseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000
