"""A limit per hour on what somebody may do without an account, counted in the memory of this process."""

import threading
from collections import deque

from schedules import clock

# Those that were counted longest ago are forgotten first.
MAX_KEYS = 10_000


class HourlyLimit:
    """Counts per key, such as the address of a client."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def allows(self, key: str) -> bool:
        """Return whether the limit leaves room for one more, and count it if so."""
        now = clock.steady()
        with self._lock:
            # The end of the dict is for keys that were counted last.
            times = self._times[key] = self._times.pop(key, deque(maxlen=self._most))
            if len(self._times) > MAX_KEYS:
                del self._times[next(iter(self._times))]
            if len(times) == self._most and times[0] > now - 3600:
                return False
            times.append(now)
            return True
