"""Warnings about hosts that share a database but differ in their clocks or zone data."""

import logging
import socket
import time
from datetime import datetime, timedelta

from django.db import connection

from schedules import clock
from schedules.models import Cluster
from schedules.when import zones

logger = logging.getLogger(__name__)

# A clock that differs by more, in seconds, is reported.
CLOCK_TOLERANCE = 1.0
# The note of a cluster whose heartbeats ended, and for how long its host is reported.
STOPPED_RESPONDING = "It stopped responding."
DEAD_FOR = timedelta(hours=1)
# How often the log may say so, in seconds.
WARN_EVERY = 60.0


def host_warnings(now: datetime) -> list[str]:
    """Describe how this host and those of running clusters differ: wrong clocks, different zone data."""
    rows = Cluster.objects.fresh(now).order_by("host", "pk").values_list("host", "clock_ahead", "zone_data")
    hosts = [*rows, (socket.gethostname(), clock.ahead(), zones.release())]
    warnings = [
        f"The clock of {host} is {deviation}. Jobs run by the database's clock; correct the host's."
        for host, ahead, _ in hosts
        if (deviation := describe_deviation(ahead))
    ]
    releases = dict.fromkeys(f"{host} has {release}" for host, _, release in hosts if release)
    if len({release for _, _, release in hosts if release}) > 1:
        warnings.append(
            f"Hosts use different zone data: {', '.join(releases)}. Where the releases disagree, a job may run at the"
            " time of the older one; install the same release everywhere."
        )
    return list(dict.fromkeys(warnings))


def dead_hosts(now: datetime) -> dict[str, datetime]:
    """Return the hosts that stopped responding lately and are not back, with when, although another one went on."""
    alive = list(Cluster.objects.fresh(now).values_list("host", "started_at"))
    died = Cluster.objects.filter(
        note=STOPPED_RESPONDING, stopped_at__gte=now - DEAD_FOR, stopped_at__lte=now
    ).exclude(host__in=[host for host, _ in alive])
    return {
        host: at
        for host, at in died.order_by("stopped_at").values_list("host", "stopped_at")
        if at and any(started_at < at for _, started_at in alive)
    }


def describe_surplus_clusters(now: datetime) -> str:
    """Return a warning if several clusters share a SQLite database, else an empty text."""
    if (
        connection.vendor != "sqlite"
        or len(alive := list(Cluster.objects.fresh(now).order_by("host", "pid")[:10])) < 2
    ):
        return ""
    return f"{len(alive)} clusters share one SQLite database, which has one writer at a time: {', '.join(map(str, alive))}."


def describe_deviation(ahead: float) -> str:
    """Describe how far a host's clock is from the database's; an empty text if they agree."""
    if abs(ahead) <= CLOCK_TOLERANCE:
        return ""
    return f"{abs(ahead):,.0f} seconds {'ahead of' if ahead > 0 else 'behind'} the database's"


_warned_at = float("-inf")


def warn_of_wrong_clock(ahead: float) -> None:
    """Log that this host's clock is wrong, at most once a minute."""
    global _warned_at
    deviation = describe_deviation(ahead)
    if deviation and time.monotonic() - _warned_at >= WARN_EVERY:
        _warned_at = time.monotonic()
        logger.warning(
            "This host's clock is %s. Jobs run by the database's clock; correct the host's.", deviation
        )
