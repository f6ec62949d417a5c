"""The counts of a job, to which a run is added when it is planned."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import F
from django.db.models.functions import Greatest

from schedules.models import Job


def uncount(job_ids: Iterable[int]) -> None:
    """Take one planned run, which will not start, from the counts of each job; a job may be given several times."""
    taken = Counter(job_ids)
    for times in set(taken.values()):
        counts = {name: Greatest(F(name) - times, 0) for name in ("slot_count", "run_count")}
        Job.objects.filter(pk__in=[pk for pk, count in taken.items() if count == times]).update(**counts)
