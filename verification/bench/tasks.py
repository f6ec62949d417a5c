"""Trivial tasks, so that the benchmark measures the engine."""

from schedules.tasks.registry import task


@task("bench.coroutine", description="A trivial coroutine.")
async def coroutine() -> None:
    return None


@task("bench.plain", description="A trivial plain function.")
def plain() -> None:
    return None
