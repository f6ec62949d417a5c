"""Whose turn is it, where runs of a job wait for each other?"""

from collections.abc import Iterable

from django.db import connection
from django.db.models import F

from schedules.engine.sql import integers
from schedules.models import Execution

# Written out, with `LIMIT 1`, like the end of a job in `runs.py`: it is asked for every run that ends.
_NEXT_HELD = """
    SELECT min(held.id) FROM schedules_execution held
    WHERE held.job_id IN ({ids}) AND held.finished_at IS NULL
        AND held.status = 'queued' AND held.available_at IS NULL
        AND (
            SELECT 1 FROM schedules_execution busy
            WHERE busy.job_id = held.job_id AND busy.finished_at IS NULL
                AND (busy.status IN ('claimed', 'running', 'waiting')
                    OR busy.status = 'queued' AND busy.available_at IS NOT NULL)
            LIMIT 1) IS NULL
    GROUP BY held.job_id
"""


def release_next(job_ids: Iterable[int]) -> None:
    """Let the oldest run that waited for its predecessor go, where none is left before it."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_HELD.format(ids=integers(job_ids)))
        released = [row[0] for row in cursor.fetchall()]
    if released:
        Execution.objects.filter(pk__in=released).update(available_at=F("scheduled_for"), reason="")
