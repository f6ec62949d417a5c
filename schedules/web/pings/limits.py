"""Limits of pings, counted in the memory of this process: of each address, and of what a client guesses."""

from collections.abc import Hashable
from http import HTTPStatus

from django.conf import settings

from schedules import clock

WINDOW_SECONDS = 60
# How many addresses nobody has a client may ask for within a minute.
MAX_MISSES = 60
# Old ones are forgotten when there are more keys than this.
MAX_KEYS = 20_000


class PerMinute:
    """Counts within windows of a minute, for each key."""

    def __init__(self) -> None:
        self._window = 0
        self._counts: dict[Hashable, int] = {}

    def count(self, key: Hashable) -> int:
        """Count one more of a key, and return how many there were in this window."""
        self._begin()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if len(self._counts) > MAX_KEYS:
            del self._counts[next(iter(self._counts))]
        return count

    def of(self, key: Hashable) -> int:
        self._begin()
        return self._counts.get(key, 0)

    def _begin(self) -> None:
        window = int(clock.steady() // WINDOW_SECONDS)
        if window != self._window:
            self._window, self._counts = window, {}


class PingLimits:
    """What a client may ask for in a minute."""

    def __init__(self, setting: str = "CRONTY_PINGS_PER_MINUTE") -> None:
        self._setting = setting
        self._pings, self._misses = PerMinute(), PerMinute()
        self._known: dict[Hashable, None] = {}

    def allow(self, address: Hashable, client: str) -> bool:
        """Count a ping, and return whether it may be looked up; asks no database."""
        most = getattr(settings, self._setting)
        if self._misses.of(client) >= MAX_MISSES and address not in self._known:
            # One client with an old address must not silence the others of its network.
            return False
        # Of each address and client, so that nobody else can use up the pings of a job.
        return not most or self._pings.count((address, client)) <= most

    def note(self, address: Hashable, client: str, status: int) -> None:
        """Note by the status of its answer whether somebody has this address."""
        if status == HTTPStatus.NOT_FOUND:
            self._misses.count(client)
        elif status < HTTPStatus.BAD_REQUEST:
            self._known[address] = None
            if len(self._known) > MAX_KEYS:
                del self._known[next(iter(self._known))]
