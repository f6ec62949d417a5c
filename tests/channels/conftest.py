"""The server that records requests, and limits that only a hang reaches."""

from tests.tasks.builtin.conftest import sink
from tests.tasks.conftest import patient

__all__ = ["patient", "sink"]
