"""Active jobs of the same owner that a job could be confused with: they do the same, or their names look alike."""

# ruff: noqa: RUF001

import hashlib
import json
import re
import unicodedata
from datetime import UTC, timedelta
from typing import Any, NamedTuple

from django.db.models import Q

from schedules import limits
from schedules.models import Job
from schedules.services.actors import Actor

SAME_TIME = timedelta(minutes=1)
# Unordered, so that an index alone finds the jobs.
_ACTIVE = Job.objects.active().order_by().values_list("public_id", "name")

# Small letters, because capital ones look alike too and are compared as small ones.
_ALIKE = {
    "a": "аαɑ",
    "b": "вβь",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еєεҽ",
    "g": "ɡց",
    "h": "нһηհ",
    "j": "јϳ",
    "k": "кκ",
    "l": "1i|ıіιӏ",
    "m": "мμ",
    "n": "νոп",
    "o": "0оοօ",
    "p": "рρ",
    "q": "ԛգ",
    "s": "ѕ",
    "t": "тτ",
    "u": "սυ",
    "w": "ԝω",
    "x": "хχ",
    "y": "уүγ",
    "z": "ζ",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc`´",
}
# The joiners and selectors that a name may contain.
_INVISIBLE = re.compile("[\u200c\u200d\ufe0e\ufe0f\u180b-\u180f]")
_LETTERS = str.maketrans({other: letter for letter, others in _ALIKE.items() for other in others})


class SimilarJob(NamedTuple):
    """An active job that does the same on the same schedule, or whose name looks the same."""

    public_id: str
    name: str


def similar_to(job: Job) -> SimilarJob | None:
    """Return another active job of the owner with the same task, arguments and schedule, or None."""
    same = _ACTIVE.filter(owner=job.owner_id, likeness=job.likeness)
    if job.run_at:
        # A repeated "in an hour" gives another second. Compare in UTC, because wall times are ambiguous when clocks
        # are set back.
        moment = job.run_at.astimezone(UTC)
        same = same.filter(run_at__gt=moment - SAME_TIME, run_at__lt=moment + SAME_TIME)
    return _first(same, job)


def look_alike(actor: Actor, job: Job) -> SimilarJob | None:
    """Return an active job of the owner with another name that looks like this job's, or None."""
    is_other = ~Q(name=job.name) & actor.within_tasks()
    return _first(_ACTIVE.filter(is_other, owner=job.owner_id, name_skeleton=job.name_skeleton), job)


def _first(found: Any, job: Job) -> SimilarJob | None:
    """Return the first of these rows that is not the job itself."""
    others = (SimilarJob(*row) for row in found[:2] if row[0] != job.public_id)
    return next(others, None)


def likeness_of(job: Job) -> str:
    """Return a digest of what a job does and on which schedule; the moment of a one-time job is left out."""
    schedule = None if job.run_at else [job.timezone, job.cron, str(job.every), job.calendar_unit]
    text = json.dumps([job.task, job.args, job.kwargs, job.trigger_type, schedule], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def skeleton(name: str) -> str:
    """Reduce a name to what it looks like: names with equal skeletons are easily taken for each other."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", limits.strip_unprintable(name)))
    words = " ".join(visible.casefold().translate(_LETTERS).split())
    return words.replace("rn", "m").replace("vv", "w")[: limits.NAME_LENGTH]
