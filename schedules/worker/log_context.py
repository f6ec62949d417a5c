"""The run that log lines belong to. It imports nothing of Django, because logging is configured before the apps are."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

current_run: ContextVar[Mapping[str, Any]] = ContextVar("run", default=MappingProxyType({}))
