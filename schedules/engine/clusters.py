"""Clusters and their hosts: heartbeats, starts of machines, wrong clocks, and pings to an external monitor."""

import logging
import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F, Q

from schedules import clock, limits
from schedules.engine.gaps import Slot, reason_of_pause
from schedules.engine.interruptions import Interruption
from schedules.models import Cluster, Execution, Installation, Job, MachineStart
from schedules.secrets.encryption import accepted_keys
from schedules.when import zones
from schedules.when.durations import TICK
from schedules.when.event_times import AT_EVENT
from schedules.when.unplanned import AT_START, UNKNOWN_START

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# How many starts are remembered. If a machine stays up while this many others start, it counts as started again.
REMEMBERED = 10_000
Status = Execution.Status
logger = logging.getLogger(__name__)
# A clock that differs by more, in seconds, is reported.
CLOCK_TOLERANCE = 1.0
# The note of a cluster whose heartbeats ended, and for how long its host is reported.
STOPPED_RESPONDING = "It stopped responding."
DEAD_FOR = timedelta(hours=1)
# How often the log may say so, in seconds.
WARN_EVERY = 60.0
PING_EVERY = timedelta(minutes=1)
LONGEST_ERROR = 200


def enlist(now: datetime) -> Cluster:
    """Register the cluster that this process leads."""
    return Cluster.objects.create(
        host=socket.gethostname(),
        pid=os.getpid(),
        started_at=now,
        last_seen_at=now,
        probe_returned_at=now,
        clock_ahead=clock.ahead(),
        zone_data=zones.release(),
        secret_keys=list(accepted_keys()),
    )


def beat(
    cluster_id: int,
    now: datetime,
    *,
    claimed: int = 0,
    blocked_since: datetime | None = None,
    interruptions: Sequence[Interruption] | None = None,
) -> None:
    """Write a heartbeat of the claim loop; this revives a cluster that was marked as stopped."""
    ahead = clock.ahead()
    changes: dict[str, Any] = {
        "last_seen_at": now,
        "stopped_at": None,
        "clock_ahead": ahead,
        "blocked_since": blocked_since,
    }
    if interruptions is not None:
        changes["interruptions"] = [item.to_json() for item in interruptions]
    Cluster.objects.filter(pk=cluster_id).update(claimed_count=F("claimed_count") + claimed, **changes)
    warn_of_wrong_clock(ahead)


def probe_returned(cluster_id: int, sent_at: datetime) -> None:
    """Record that the probe sent at this moment has passed through the whole cluster."""
    Cluster.objects.filter(pk=cluster_id).update(probe_returned_at=sent_at)


def retire(cluster_id: int, now: datetime, note: str = "") -> None:
    Cluster.objects.filter(pk=cluster_id, stopped_at=None).update(stopped_at=now, note=note)


def note_machine_start(cluster_id: int, now: datetime) -> None:
    """Arm the jobs that run when a machine starts, unless a cluster already has for this start.

    On systems without a boot id, each start of a cluster counts.
    """
    started = _boot_id() or f"cluster {cluster_id}"
    if MachineStart.objects.filter(boot_id=started).exists():
        return
    try:
        # One transaction: if this process dies halfway, the next cluster arms the jobs.
        with transaction.atomic():
            start = MachineStart.objects.create(boot_id=started, host=socket.gethostname(), noticed_at=now)
            MachineStart.objects.filter(pk__lte=start.pk - REMEMBERED).delete()
            _arm(now)
    except IntegrityError:
        # Another cluster of this machine was faster.
        return


def remember_machine_start(now: datetime) -> None:
    """Remember this start of the machine without running anything."""
    if started := _boot_id():
        start = MachineStart(boot_id=started, host=socket.gethostname(), noticed_at=now)
        MachineStart.objects.bulk_create([start], ignore_conflicts=True)


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _arm(now: datetime) -> None:
    """Make the jobs due that wait for a machine start, and write a skipped row for each that cannot run."""
    waiting = Job.objects.kept().filter(
        cron__icontains=AT_START, status__in=(Job.Status.PENDING, Job.Status.PAUSED)
    )
    # Leave out jobs that run with calendar events: a title may contain the same text.
    jobs = waiting.exclude(cron__istartswith=AT_EVENT)
    armed, rows = [], []
    for job in jobs.select_for_update(of=("self",)).order_by("pk"):
        if job.status == Job.Status.PAUSED:
            rows.append(Slot(now, Status.SKIPPED, reason=reason_of_pause(job)).row_of(job, now))
        elif job.next_run_at == UNKNOWN_START:
            armed.append(job.pk)
        else:
            reason = "The run for the start before this one was still due."
            # After the slot that is still due: the clocks of two machines may show the same moment.
            at = max(now, (job.next_run_at or now) + TICK)
            rows.append(Slot(at, Status.SKIPPED, reason=reason).row_of(job, now))
    Job.objects.filter(pk__in=armed).update(next_run_at=now)
    Execution.objects.bulk_create(rows, ignore_conflicts=True)


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


def take_watch_turn(now: datetime) -> bool:
    """Return True to exactly one process of all clusters in each minute: it sends the ping."""
    row = Installation.objects.get_or_create(pk=Installation.ONLY)[0]
    minute = now.replace(second=0, microsecond=0)
    # A moment in the future was written before a clock was set back.
    is_free = (
        Q(watch_pinged_at=None) | Q(watch_pinged_at__lt=minute) | Q(watch_pinged_at__gt=now + PING_EVERY)
    )
    return bool(Installation.objects.filter(is_free, pk=row.pk).update(watch_pinged_at=now))


def note_watch_answer(now: datetime, error: str = "") -> None:
    """Record how a ping went, for `doctor`."""
    text = limits.strip_unprintable(error)[:LONGEST_ERROR]
    changes = {"watch_error": text} if text else {"watch_error": "", "watch_answered_at": now}
    Installation.objects.filter(pk=Installation.ONLY).update(**changes)
