"""Waiting for what is said instead of for seconds."""

import time
from collections.abc import Callable

# Only a hang takes this long, even on a slow machine.
PATIENCE = 300.0


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"did not come true within {seconds} s"
        time.sleep(0.02)  # noqa: TID251
