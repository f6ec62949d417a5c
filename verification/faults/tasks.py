"""Tasks of the campaign: plain functions that deliver, and one that harms its worker."""

import os
import sys
import time
import urllib.request

from django.conf import settings

from schedules.tasks import Run, task
from schedules.tasks.outbound import requests


@task("faults.deliver", description="A plain function that works for a while, then delivers.")
def deliver(url: str, seconds: float = 0, *, run: Run) -> int:
    time.sleep(seconds)  # noqa: TID251
    headers = {
        "Idempotency-Key": run.key,
        "Cronty-Execution": str(run.execution_id),
        "Cronty-Attempt": str(run.attempt),
        "User-Agent": requests.USER_AGENT,
        "Connection": "close",
    }
    request = urllib.request.Request(url, data=b"{}", headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=settings.CRONTY_OUTBOUND_TIMEOUT) as answer:
        return int(answer.status)


@task("faults.poison", description="Does its worker harm.")
def poison(how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "leave":
            sys.exit("no more")
        case "recurse":
            poison(how)
        case "unprintable":
            raise _UnprintableError


@task("faults.apoison", description="Does its loop harm.")
async def apoison(how: str) -> object:
    match how:
        case "leave":
            sys.exit("no more")
        case "unwritable":
            return object()
    raise _UnprintableError


class _UnprintableError(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("not even its words can be read")
