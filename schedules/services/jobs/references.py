"""References to a job: its public id, its number, or its exact name if no other job has it."""

import re

from schedules import limits
from schedules.models import Job
from schedules.models.jobs import JobQuerySet
from schedules.models.name_skeletons import skeleton
from schedules.result import Code, Err, Ok, Result

MOST_CANDIDATES = 5
_PUBLIC_ID = re.compile(r"[a-z]+_[0-9]+_[0-9]+")
NUMBER = re.compile(r"#?([0-9]{1,18})")


def looks_like_public_id(reference: str) -> bool:
    return _PUBLIC_ID.fullmatch(reference) is not None


def job_meant(jobs: JobQuerySet, reference: str) -> Result[Job | None]:
    """Return the one of these jobs that is meant, or None; a number takes one query."""
    if job := next(iter(_numbered(jobs, reference.strip())), None):
        return Ok(job)
    meant = public_id_of(jobs, reference)
    return Ok(jobs.find(meant.value)) if isinstance(meant, Ok) else meant


def _numbered(jobs: JobQuerySet, text: str) -> JobQuerySet | tuple[()]:
    """Return the job with this number; a text that is none takes no query."""
    number = NUMBER.fullmatch(text)
    # Not an empty queryset: Django builds its whole query to find nothing.
    return jobs.filter(pk=int(number[1])).order_by() if number else ()


def public_id_of(jobs: JobQuerySet, reference: str) -> Result[str]:
    """Return the public id of the one of these jobs that is meant, or the text itself if none of them is.

    A public id is returned without a query: the caller looks it up anyway. Of jobs with the same name, the only active
    one is meant; if there are several, an error names them.
    """
    text = reference.strip()
    if looks_like_public_id(text):
        return Ok(text)
    if found := next(iter(_numbered(jobs.only("public_id"), text)), None):
        return Ok(found.public_id)
    if not text or len(text) > limits.NAME_LENGTH or limits.line_problem(text):
        return Ok(text)
    # By the skeleton, which has an index; it is the same for names that only look the same, so the name decides.
    alike = jobs.filter(name_skeleton=skeleton(text)).order_by("-pk")
    rows = list(alike.values_list("public_id", "status", "name")[: 20 * MOST_CANDIDATES])
    named = [row for row in rows if row[2] == text]
    named = named or [row for row in rows if row[2].casefold() == text.casefold()]
    active = [public_id for public_id, status, _ in named if status in Job.ACTIVE]
    meant = active or [public_id for public_id, _, _ in named]
    if len(meant) > 1:
        listed = ", ".join(meant[:MOST_CANDIDATES]) + (", …" if len(meant) > MOST_CANDIDATES else "")
        return Err(Code.CONFLICT, f"Several jobs have this name: {listed}. Give the id of the one you mean.")
    return Ok(meant[0] if meant else text)
