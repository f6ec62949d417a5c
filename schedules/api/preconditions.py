"""Preconditions against lost updates: the ETag of a job, and the If-Match header of requests."""

import re

from django.http import HttpRequest

from schedules.api.problems import ProblemError

MAX_TAG_LENGTH = 100
# A compressed answer has a weak tag; it names the same revision.
_TAG = re.compile(r'(?:W/)?"r([0-9]{1,18})"')


def tag_of(revision: int) -> str:
    return f'"r{revision}"'


def required_revision(request: HttpRequest) -> int | None:
    """Return the revision in If-Match, or None for `*`; refuse a request without this header."""
    if not request.headers.get("If-Match", "").strip():
        raise ProblemError(
            428,
            "precondition_required",
            "Send If-Match with the ETag of the job as you saw it, or If-Match: * to change it as it is now.",
            errors=[("If-Match", "This header is required.")],
        )
    return revision_in(request)


def revision_in(request: HttpRequest) -> int | None:
    """Return the revision in If-Match, or None for `*` and without this header."""
    text = request.headers.get("If-Match", "").strip()
    if text in ("", "*"):
        return None
    if len(text) > MAX_TAG_LENGTH:
        raise ProblemError(
            422,
            "invalid",
            "If-Match is no ETag of a job.",
            errors=[("If-Match", f"Send at most {MAX_TAG_LENGTH} characters.")],
        )
    match = _TAG.fullmatch(text)
    # A tag that we never sent matches no revision.
    return int(match[1]) if match else -1
