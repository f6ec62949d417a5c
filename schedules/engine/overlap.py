"""The overlap policy: what happens to a run while an earlier run of the same job has not ended."""

from collections.abc import Collection
from datetime import datetime, timedelta

from schedules.engine.due import PlannedJob
from schedules.engine.gaps import Slot
from schedules.engine.sql import queries
from schedules.models import Execution, Job

# If a slot is planned later than this, the clusters could not write for a while, and the previous run may have ended
# without being settled.
PLANNED_SOON = timedelta(seconds=5)
HELD_RUNS = 100

Status = Execution.Status


def apply_overlap(job: PlannedJob, slots: list[Slot], live: int, now: datetime) -> list[Slot]:
    """Skip or queue the slots that would overlap with another run; `live` is the number of unfinished runs."""
    if job.overlap == Job.Overlap.ALLOW or job.trigger_type == Job.TriggerType.ONCE:
        return slots
    rows = []
    for slot in slots:
        if live == 0:
            rows.append(slot)
        elif job.overlap == Job.Overlap.SKIP and slot.cause == Execution.Cause.SCHEDULE:
            why = "was still running" if now - slot.at <= PLANNED_SOON else "had not been stored yet"
            rows.append(Slot(slot.at, Status.SKIPPED, reason=f"The previous run {why}."))
            continue
        elif live > HELD_RUNS:
            rows.append(Slot(slot.at, Status.SKIPPED, slot.cause, f"{HELD_RUNS} runs were already waiting."))
            continue
        else:
            rows.append(Slot(slot.at, Status.QUEUED, slot.cause, "Waiting for the previous run."))
        live += 1
    return rows


def release_next(job_ids: Collection[int], now: datetime) -> None:
    """Make the oldest waiting run of each job ready, unless another run is still under way."""
    if released := queries.next_in_line(job_ids):
        Execution.objects.filter(pk__in=released).update(available_at=now, reason="")
