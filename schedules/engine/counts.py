"""Counts of planned runs: a run is counted when its slot is claimed, and no longer if it was missed after all."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import F
from django.db.models.functions import Greatest

from schedules.models import Execution, Job
from schedules.when.triggers import TriggerError


def uncount(job_ids: Iterable[int]) -> None:
    """Take one planned run, which will not start, from the counts of each job; a job may be given several times."""
    taken = Counter(job_ids)
    for times in set(taken.values()):
        counts = {name: Greatest(F(name) - times, 0) for name in ("slot_count", "run_count")}
        Job.objects.filter(pk__in=[pk for pk, count in taken.items() if count == times]).update(**counts)


def uncount_missed(job_ids: Iterable[int]) -> None:
    """Uncount planned runs that were missed, and arm jobs again that had none left; the caller has locked the jobs."""
    missed = list(job_ids)
    uncount(missed)
    for job in Job.objects.filter(pk__in=set(missed), status=Job.Status.RUNNING).exclude(max_runs=None):
        decided = Execution.objects.filter(job=job).exclude(cause=Execution.Cause.MANUAL)
        first, last = decided.order_by("-scheduled_for").values_list("scheduled_for", "last_slot")[0]
        try:
            # A slot in the past is due: the claim decides whether it is missed or caught up on.
            following = job.next_slot(last or first)
        except TriggerError:
            continue
        if following:
            Job.objects.filter(pk=job.pk).update(status=Job.Status.PENDING, next_run_at=following)
