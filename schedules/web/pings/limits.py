"""Rate limits of pings, counted in this process's memory: pings per address, and wrong guesses per client."""

from collections.abc import Hashable
from http import HTTPStatus

from django.conf import settings

from schedules import clock

WINDOW_SECONDS = 60
# How many addresses that don't exist a client may request per minute.
MAX_MISSES = 60
# Beyond this many keys, the oldest are dropped.
MAX_KEYS = 20_000


class PerMinute:
    """Counts events per key in windows of one minute."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: dict[Hashable, int] = {}

    def count(self, key: Hashable) -> int:
        """Count an event of a key, and return the key's count in this window."""
        self._begin()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if len(self._counts) > MAX_KEYS:
            del self._counts[next(iter(self._counts))]
        return count

    def current(self, key: Hashable) -> int:
        self._begin()
        return self._counts.get(key, 0)

    def _begin(self) -> None:
        window = int(clock.steady() // WINDOW_SECONDS)
        if window != self._window:
            self._window, self._counts = window, {}


class PingLimits:
    """Limits what a client may request per minute."""

    def __init__(self, setting: str = "CRONTY_PINGS_PER_MINUTE") -> None:
        self._setting = setting
        self._pings, self._misses = PerMinute(), PerMinute()
        self._existing: dict[Hashable, None] = {}

    def allow(self, address: Hashable, client: str) -> bool:
        """Count a ping, and return whether it may be looked up; does not use the database."""
        max_pings = getattr(settings, self._setting)
        if self._misses.current(client) >= MAX_MISSES and address not in self._existing:
            # Existing addresses still pass: a client with an outdated address must not block others in its network.
            return False
        # Per address and client, so that nobody else can use up the pings of a job.
        return not max_pings or self._pings.count((address, client)) <= max_pings

    def note(self, address: Hashable, client: str, status: int) -> None:
        """Record, from the status of the answer, whether the address exists."""
        if status == HTTPStatus.NOT_FOUND:
            self._misses.count(client)
        elif status < HTTPStatus.BAD_REQUEST:
            self._existing[address] = None
            if len(self._existing) > MAX_KEYS:
                del self._existing[next(iter(self._existing))]
