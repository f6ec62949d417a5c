"""Filters of the list of jobs, for pages and agents; they look through a limited number of jobs and runs."""

import functools
import json
import operator
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Func, Q, TextField, Value
from django.db.models.functions import Cast

from schedules.models import Job
from schedules.models.counting import COUNTED, among_first, has_key
from schedules.models.executions import OUTCOME_LETTERS, ExecutionQuerySet
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import WALKED

SEARCHED = ("name", "label", "cron", "task", "made_by", "public_id", "last_error", "tags")
MOST_WORDS = 8
# A run whose workers died has failed, too, for those who ask.
STATUSES_OF_OUTCOME = {
    "succeeded": ("succeeded",),
    "failed": ("failed", "lost"),
    "cancelled": ("cancelled",),
    "skipped": ("skipped",),
    "missed": ("missed",),
}


class _NamedText(Func):
    """A text among the named arguments of a job."""

    output_field = TextField()

    def __init__(self, name: str) -> None:
        super().__init__("kwargs", name=name)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "JSON_EXTRACT(%(expressions)s, '$.%(name)s')"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="%(expressions)s ->> '%(name)s'", **context)


class _Lines(Func):
    """Several texts as one, a line each: to compare every word with each of them takes longer."""

    function = "FORMAT"
    output_field = TextField()

    def __init__(self, *texts: Any) -> None:
        super().__init__(Value("\n".join(["%s"] * len(texts))), *texts)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="PRINTF", **context)


def mentioning(jobs: JobQuerySet, *words: str) -> JobQuerySet:
    """Jobs that contain each of these in their name, tags, message, prompt or another field that people see."""
    jobs = jobs.alias(seen=_Lines(*SEARCHED, _NamedText("message"), _NamedText("prompt")))
    for word in words:
        # Tags are stored as JSON.
        forms = {word, _json_text(word)[1:-1]}
        jobs = jobs.filter(functools.reduce(operator.or_, (Q(seen__icontains=form) for form in forms)))
    return jobs


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a job that had the wanted outcome: how many, and when the last of them was due."""

    count: int
    last: datetime


class Matching(NamedTuple):
    """The runs that had the wanted outcome, by job."""

    by_job: Mapping[int, Runs]
    is_cut: bool
    """Whether older runs were not looked through."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What jobs must have in common; an empty value is no condition."""

    query: str = ""
    tag: str = ""
    task: str = ""
    outcome: str = ""
    """The outcome of the last run, or of any run since a moment."""
    since: datetime | None = None
    """Without an outcome: jobs that have run since then."""

    def __bool__(self) -> bool:
        return bool(self.query or self.tag or self.task or self.outcome or self.since)

    def matching_runs(self, runs: ExecutionQuerySet) -> Matching:
        """Count the runs with the wanted outcome since the moment; `runs` are all that the actor sees."""
        if not (self.outcome and self.since):
            return Matching({}, is_cut=False)
        # No index has the successful ones alone, but they are easily found among all.
        most = COUNTED if self.outcome == "succeeded" else WALKED
        since = runs.filter(scheduled_for__gte=self.since).order_by("-scheduled_for", "-pk")
        due: defaultdict[int, list[datetime]] = defaultdict(list)
        is_cut = False
        for status in STATUSES_OF_OUTCOME[self.outcome]:
            newest = since.indexed_for(status).values_list("status", "job", "scheduled_for")[: most + 1]
            is_cut = is_cut or len(newest) > most
            for found, job_id, moment in newest[:most]:
                if found == status and job_id is not None:
                    due[job_id].append(moment)
        by_job = {job_id: Runs(len(moments), max(moments)) for job_id, moments in due.items()}
        return Matching(by_job, is_cut)

    def applied_to(self, jobs: JobQuerySet, matching: Mapping[int, Runs]) -> JobQuerySet:
        """Return those of the first jobs that match, the next to run first; `matching` are their matching runs."""
        # By key alone: to find few matches in its own order, the database would look through all jobs.
        found = Job.objects.filter(among_first(jobs))
        if self.query:
            found = mentioning(found, *self.query.split()[:MOST_WORDS])
        if self.tag:
            # A notification has tags of its own, which people do not tell apart from those of its job.
            quoted = _json_text(self.tag)
            has_tag = Q(tag_text__icontains=quoted) | Q(task="notify", kwargs__tags__icontains=quoted)
            found = found.annotate(tag_text=Cast("tags", TextField())).filter(has_tag)
        if self.task:
            found = found.filter(task=self.task)
        if self.since and not self.outcome:
            return found.filter(last_run_at__gte=self.since)
        if not self.outcome:
            return found
        ended_so = Q(pk__in=[])
        for letter in (OUTCOME_LETTERS.get(status) for status in STATUSES_OF_OUTCOME[self.outcome]):
            if letter:
                ended_so |= Q(recent__endswith=letter)
        if self.since:
            return found.filter(Q(has_key(matching)) | (ended_so & Q(last_run_at__gte=self.since)))
        return found.filter(ended_so)


def _json_text(text: str) -> str:
    """Format a text as it appears inside a stored JSON list."""
    return json.dumps(text, ensure_ascii=not connection.features.supports_json_field_contains)
