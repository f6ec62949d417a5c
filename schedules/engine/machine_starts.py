"""Machine starts: each arms the jobs that run at boot, once for all clusters of the machine."""

import socket
from datetime import datetime
from pathlib import Path

from django.db import IntegrityError, transaction

from schedules.engine.gaps import Slot, reason_of_pause
from schedules.models import Execution, Job, MachineStart
from schedules.when.durations import TICK
from schedules.when.event_times import AT_EVENT
from schedules.when.unplanned import AT_START, UNKNOWN_START

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# How many starts are remembered. If a machine stays up while this many others start, it counts as started again.
REMEMBERED = 10_000

Status = Execution.Status


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
