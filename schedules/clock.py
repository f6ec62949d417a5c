"""The current time: the database's clock where several hosts share a database, else the host's own."""

import mmap
import time
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.utils import timezone

# How fast a host's clock may drift between two readings of the database's clock, in seconds per second.
DRIFT = 1e-4
# A larger jump of the host's clock, in seconds, means that somebody has set it.
MAX_JUMP = 0.25

# On Linux, only this clock also counts the time that the machine sleeps. Nobody can set it.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Return the seconds since the host was started."""
    return time.clock_gettime(_STEADY)


class DatabaseClock:
    """The database's clock, computed from the host's steady clock and a measured difference.

    Forked processes share the measurement, and one of them keeps it fresh for all. There is no lock, because a killed
    process would hold it forever; each value is written atomically.
    """

    def __init__(self) -> None:
        self._values = memoryview(mmap.mmap(-1, 32)).cast("d")

    @property
    def error(self) -> float:
        """How far this clock may be off, in seconds: half the round trip of the current reading."""
        return self._values[1]

    def time(self) -> float | None:
        """Return the database's time as a timestamp, or None before the first reading."""
        difference = self._values[0]
        return difference + steady() if difference else None

    def add(self, sent: float, database_time: float, received: float) -> None:
        """Add a reading: the database's time, and the steady times before and after it was read.

        It replaces the current reading if the two contradict each other, or if it is clearly more exact.
        """
        difference, error = database_time - (sent + received) / 2, (received - sent) / 2
        current, current_error, current_at, _ = self._values
        is_contradiction = abs(difference - current) > error
        is_more_exact = error < (current_error + DRIFT * (received - current_at)) / 2
        if is_contradiction or is_more_exact:
            self._values[1], self._values[2] = error, received
            self._values[0] = difference
        self._values[3] = _host_difference()

    def is_host_set(self) -> bool:
        """Return whether somebody has set the host's clock since the last reading, or the host was suspended."""
        return bool(self._values[0]) and abs(_host_difference() - self._values[3]) > MAX_JUMP


database = DatabaseClock()


def now() -> datetime:
    """Return the current time that all hosts agree on."""
    moment = database.time()
    return timezone.now() if moment is None else datetime.fromtimestamp(moment, UTC)


def ahead() -> float:
    """Return how many seconds the host's clock is ahead of the database's; 0 where the host's clock is used."""
    moment = database.time()
    return 0.0 if moment is None else timezone.now().timestamp() - moment


def measure(over: Any = connection) -> None:
    """Read the database's clock. SQLite has none: its only host's clock is used."""
    if over.vendor != "postgresql":
        return
    with over.cursor() as cursor:
        sent = steady()
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        (database_time,) = cursor.fetchone()
        database.add(sent, database_time, steady())


def measure_new_connection(*, connection: Any, **more: Any) -> None:
    """Read the clock over each new connection, so that no process relies on its own host's clock."""
    if connection.alias == DEFAULT_DB_ALIAS:
        measure(connection)


def _host_difference() -> float:
    return timezone.now().timestamp() - steady()
