"""Tasks for tests; they record their calls in a file, independently of the ledger."""

import asyncio
import os
import time
from typing import Any

from django.db import transaction

from schedules.tasks import Run, task


def _note(path: str, *words: object) -> None:
    """Append one line; the kernel keeps the lines of several processes apart."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, (" ".join(map(str, words)) + "\n").encode())
    os.close(handle)


@task("tests.ping", description="A plain function for tests.")
def ping(*values: int, fail: bool = False) -> dict[str, Any]:
    if fail:
        raise RuntimeError("told to fail")
    return {"values": list(values)}


@task("tests.aping", description="A coroutine for tests.")
async def aping(fail: bool = False) -> str:
    if fail:
        raise RuntimeError("told to fail")
    return "pong"


@task("tests.note", description="A plain function that notes when it began and ended.")
def note(path: str, seconds: float = 0, *, run: Run) -> None:
    _note(path, "begin", run.key, run.attempt, os.getpid())
    time.sleep(seconds)  # noqa: TID251
    _note(path, "end", run.key, run.attempt, os.getpid())


@task(
    "tests.wait",
    description="A plain function that notes when it began and ends some seconds after a file exists.",
)
def wait(path: str, until: str, seconds: float = 0, *, run: Run) -> None:
    _note(path, "begin", run.key, run.attempt, os.getpid())
    while not os.path.exists(until):
        time.sleep(0.05)  # noqa: TID251
    time.sleep(seconds)  # noqa: TID251
    _note(path, "end", run.key, run.attempt, os.getpid())


@task(
    "tests.await",
    description="A coroutine that notes when it began and ends some seconds after a file exists.",
)
async def await_file(path: str, until: str, seconds: float = 0, *, run: Run) -> None:
    _note(path, "begin", run.key, run.attempt, os.getpid())
    while not os.path.exists(until):
        await asyncio.sleep(0.2)
    await asyncio.sleep(seconds)
    _note(path, "end", run.key, run.attempt, os.getpid())


@task("tests.hold_lock", description="A plain function that holds a transaction open in its first attempt.")
def hold_lock(seconds: float, *, run: Run) -> None:
    if run.attempt == 1:
        with transaction.atomic():
            time.sleep(seconds)  # noqa: TID251


@task("tests.anote", description="A coroutine that notes when it began and ended.")
async def anote(path: str, seconds: float = 0, *, run: Run) -> None:
    _note(path, "begin", run.key, run.attempt, os.getpid())
    await asyncio.sleep(seconds)
    _note(path, "end", run.key, run.attempt, os.getpid())
