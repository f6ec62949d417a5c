"""The run that log lines belong to; imports nothing of Django, because logging is configured before the apps are."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

current_run: ContextVar[Mapping[str, Any]] = ContextVar("run", default=MappingProxyType({}))


class InRun:
    """Lets the lines that are logged meanwhile, by a task or by what it calls, name the run."""

    # Not a generator, which would take three times as long for every run.
    def __init__(self, **names: Any) -> None:
        self._names = names

    def __enter__(self) -> None:
        self._before = current_run.set(self._names)

    def __exit__(self, *error: object) -> None:
        current_run.reset(self._before)
