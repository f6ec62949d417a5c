"""References to jobs: resolve a public id, a number or a unique name, and suggest similar names."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from django.db.models import Q

from schedules import limits
from schedules.models import Event, Job
from schedules.models.job_texts import skeleton
from schedules.models.jobs import JobQuerySet
from schedules.result import Code, Err, Ok, Result
from schedules.services.jobs.forecasts import WORDS_COLUMNS, words_of
from schedules.services.permissions import Actor

MAX_CANDIDATES = 5
# How many of the newest edits are scanned for a former name.
MAX_SCANNED_EDITS = 1_000
# How many of the newest jobs are compared to find similar names.
MAX_COMPARED = 500
_PUBLIC_ID = re.compile(r"[a-z]+_[0-9]+_[0-9]+")
NUMBER = re.compile(r"#?([0-9]{1,18})")


def looks_like_public_id(reference: str) -> bool:
    return _PUBLIC_ID.fullmatch(reference) is not None


def looks_like_id(reference: str) -> bool:
    """Return whether this has the form of a public id or a number."""
    text = reference.strip()
    return looks_like_public_id(text) or NUMBER.fullmatch(text) is not None


def resolve_job(jobs: JobQuerySet, reference: str) -> Result[Job | None]:
    """Return which of these jobs a reference means, or None; a number takes one query."""
    if job := next(iter(_numbered(jobs, reference.strip())), None):
        return Ok(job)
    match = public_id_of(jobs, reference)
    return Ok(jobs.find(match.value)) if isinstance(match, Ok) else match


def newest_names(jobs: JobQuerySet, limit: int) -> list[str]:
    """Return the names of the newest of these jobs, as suggestions for an unknown name."""
    return list(jobs.order_by("-pk").values_list("name", flat=True)[:limit])


def zone_of_job(actor: Actor, job_id: str) -> str:
    """Return the zone for times without an offset: the job's, else the user's."""
    zone = actor.jobs().called(job_id).values_list("timezone", flat=True).first()
    return zone or actor.read_profile().zone


def _numbered(jobs: JobQuerySet, text: str) -> JobQuerySet | tuple[()]:
    """Return the job with this number; other text takes no query."""
    number = NUMBER.fullmatch(text)
    # Not queryset.none(): Django would build the whole query to find nothing.
    return jobs.filter(pk=int(number[1])).order_by() if number else ()


def public_id_of(jobs: JobQuerySet, reference: str) -> Result[str]:
    """Return the public id of the job that a reference means, or the text itself if there is none.

    A public id is returned without a query, as the caller looks it up anyway. Among jobs with the same name, the only
    active one is meant; if there are several, the error lists them.
    """
    text = reference.strip()
    if looks_like_public_id(text):
        return Ok(text)
    if job := next(iter(_numbered(jobs.only("public_id"), text)), None):
        return Ok(job.public_id)
    if not text or len(text) > limits.NAME_LENGTH or limits.line_problem(text):
        return Ok(text)
    # The skeleton has an index, but is the same for all look-alike names, so compare the names, too.
    alike = jobs.filter(name_skeleton=skeleton(text)).order_by("-pk")
    rows = list(alike.values_list("public_id", "status", "name")[: 20 * MAX_CANDIDATES])
    named = [row for row in rows if row[2] == text]
    named = named or [row for row in rows if row[2].casefold() == text.casefold()]
    active = [public_id for public_id, status, _ in named if status in Job.ACTIVE]
    matches = active or [public_id for public_id, _, _ in named]
    if len(matches) > 1:
        return Err(Code.JOB_NAME_AMBIGUOUS, text, matches=_with_schedules(jobs, matches))
    return Ok(matches[0] if matches else _id_by_former_name(jobs, text) or text)


def _id_by_former_name(jobs: JobQuerySet, name: str) -> str | None:
    """Return the id of the job that had this name until its arguments were changed, or None.

    A job's name may derive from its arguments: after changing the text of a reminder, people still use the old name.
    """
    edits = Event.objects.filter(job__in=jobs.order_by(), verb="edit").order_by("-pk")
    recent = Event.objects.filter(pk__in=edits.values("pk")[:MAX_SCANNED_EDITS], before__name__iexact=name)
    renamed = recent.filter(Q(before__has_key="kwargs") | Q(before__has_key="label"))
    return renamed.order_by("-pk").values_list("job__public_id", flat=True).first()


def _with_schedules(jobs: JobQuerySet, ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the first jobs, each with its schedule, to tell them apart."""
    shown = ids[:MAX_CANDIDATES]
    rows = jobs.filter(public_id__in=shown).order_by().values_list(*WORDS_COLUMNS, named=True)
    schedules = {row.public_id: words_of(row) for row in rows}
    more = ("…",) if len(ids) > MAX_CANDIDATES else ()
    return (*(f"{job_id} ({schedules.get(job_id, 'gone')})" for job_id in shown), *more)


class NamedJob(NamedTuple):
    """A job's public id and name."""

    public_id: str
    name: str


def similar_jobs(jobs: JobQuerySet, reference: str, *, task: str = "", limit: int = 2) -> list[NamedJob]:
    """Return the jobs whose names are most similar to a text that is nobody's name, perhaps of one task only."""
    text = reference.strip()[: limits.NAME_LENGTH]
    words = set(_words_in(text))
    if not words or looks_like_id(text):
        return []
    jobs = jobs.filter(task=task) if task else jobs
    newest = jobs.order_by("-pk").values_list("public_id", "name")[:MAX_COMPARED]
    candidates = [(NamedJob(*row), _words_in(row[1])) for row in newest]
    scored = [(len(words & set(own)), job) for job, own in candidates]
    if not any(score for score, _ in scored):
        # No word is the same: count similar words.
        scored = [
            (sum(bool(get_close_matches(word, own, 1)) for word in words), job) for job, own in candidates
        ]
    scored.sort(key=lambda pair: -pair[0])
    return [job for score, job in scored[:limit] if 2 * score >= len(words)]


def _words_in(text: str) -> list[str]:
    return re.findall(r"\w{2,}", text.casefold())
