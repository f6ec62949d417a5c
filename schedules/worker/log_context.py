"""The run that log lines belong to. This file does not import Django, because logging is configured before the apps."""

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

current_run: ContextVar[Mapping[str, Any]] = ContextVar("run", default=MappingProxyType({}))
