"""Limits per hour, counted in the memory of this process, on costly or anonymous requests."""

import threading
from collections import deque

from schedules import clock

# The least recently counted keys are dropped first.
MAX_KEYS = 10_000


class HourlyLimit:
    """Counts requests per key, such as the address of a client."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._times: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def allows(self, key: str) -> bool:
        """Return whether one more request is allowed, and count it if so."""
        now = clock.steady()
        with self._lock:
            # Re-insert the key, so that the dict stays ordered by last use.
            times = self._times[key] = self._times.pop(key, deque(maxlen=self._limit))
            if len(self._times) > MAX_KEYS:
                del self._times[next(iter(self._times))]
            if len(times) == self._limit and times[0] > now - 3600:
                return False
            times.append(now)
            return True
