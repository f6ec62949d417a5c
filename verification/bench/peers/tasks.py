"""The bodies of the tasks that every peer runs: they record when they began."""

from verification.bench import recorder


def plain(due: int) -> None:
    recorder.record(due)


async def coroutine(due: int) -> None:
    recorder.record(due)
