"""The calls per minute of a token, whichever door it comes through."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.conf import settings

from schedules.models import Token

# How often a process reports its calls at full rate; more would be more exact.
REPORTS_PER_MINUTE = 20


class HasToken(Protocol):
    """A caller, by the number of its token; None for the agent that this process was started for."""

    @property
    def token_id(self) -> int | None: ...


@dataclass(slots=True)
class _Bucket:
    """The calls that a caller has left, and what was exchanged with other processes about them."""

    left: float
    at: float
    unreported: int = 0
    """Calls to this process that the others do not know of yet."""
    known: int | None = None
    """The reported calls of all processes that are already taken from `left`."""


@dataclass(slots=True)
class CallRate:
    """A token bucket per caller, which limits calls per minute over all processes.

    Processes exchange their counts through the token's row: reading it costs nothing, because every request reads that
    row anyway, and a process writes to it only once per twentieth of the limit.
    """

    _buckets: dict[Any, _Bucket] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def wait(self, caller: HasToken) -> float:
        """Count one call; return the seconds to wait if the caller has none left, else zero."""
        with self._lock:
            bucket = self._filled(caller.token_id)
            if bucket.left < 1:
                return (1 - bucket.left) * 60 / settings.CRONTY_MCP_CALLS_PER_MINUTE
            bucket.left -= 1
            bucket.unreported += 1
            return 0.0

    def left(self, caller: HasToken) -> int:
        """Return how many calls the caller may make at once now."""
        with self._lock:
            return max(0, int(self._filled(caller.token_id).left))

    def exchange(self, token: Token) -> int:
        """Take the calls that other processes reported into account; return how many this one should report now."""
        most = settings.CRONTY_MCP_CALLS_PER_MINUTE
        with self._lock:
            bucket = self._filled(token.pk)
            if bucket.known is not None:
                bucket.left = max(bucket.left - max(0, token.call_count - bucket.known), -float(most))
            # A row that was read before our last report is older than what we know.
            bucket.known = max(token.call_count, bucket.known or 0)
            if bucket.unreported < max(1, most // REPORTS_PER_MINUTE):
                return 0
            calls, bucket.unreported = bucket.unreported, 0
            bucket.known += calls
            return calls

    def _filled(self, token_id: int | None) -> _Bucket:
        most, now = float(settings.CRONTY_MCP_CALLS_PER_MINUTE), time.monotonic()
        bucket = self._buckets.setdefault(token_id, _Bucket(most, now))
        bucket.left = min(most, bucket.left + (now - bucket.at) * most / 60)
        bucket.at = now
        return bucket


call_rate = CallRate()
