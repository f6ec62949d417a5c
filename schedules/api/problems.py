"""Problem details (RFC 9457): refusals of the API as JSON that names the field and says what to do."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from schedules.result import Code, Err, Kind, invalid, sentence
from schedules.worker.database_errors import TRY_AGAIN_SECONDS

PROBLEM_JSON = "application/problem+json"
MAX_ERRORS = 51
_STATUS_OF_KIND = {
    Kind.NOT_FOUND: 404,
    Kind.FORBIDDEN: 403,
    Kind.INVALID: 422,
    Kind.WRONG_STATE: 409,
    Kind.CONFLICT: 409,
    Kind.QUOTA: 409,
    Kind.TOO_FAST: 429,
}
_STATUS_OF_CODE = {
    Code.IDEMPOTENCY_KEY_REUSED: 422,
    Code.DATABASE_UNAVAILABLE: 503,
}


class ProblemError(Exception):
    """A refusal with its status, a code for programs, and the fields that it is about."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.errors, self.headers, self.more = errors, dict(headers or {}), more

    def document(self) -> dict[str, Any]:
        """Return the problem as its JSON document."""
        content: dict[str, Any] = {
            "type": f"{reverse('schedules:api-reference')}#{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        if self.errors:
            content["errors"] = [
                {"field": field, "detail": detail} for field, detail in self.errors[:MAX_ERRORS]
            ]
        return content

    def response(self) -> JsonResponse:
        response = JsonResponse(self.document(), status=self.status, content_type=PROBLEM_JSON)
        for name, value in self.headers.items():
            response[name] = value
        return response


def problem_of(error: Err, *, status: int | None = None) -> ProblemError:
    """Turn the refusal of a service into a problem."""
    headers, more = {}, {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, error.seconds))
        more["retry_after"] = max(1, error.seconds)
    if error.code == Code.DATABASE_UNAVAILABLE:
        headers["Retry-After"] = str(TRY_AGAIN_SECONDS)
    return ProblemError(
        status or _STATUS_OF_CODE.get(error.code, _STATUS_OF_KIND[error.kind]),
        error.code.name.lower(),
        sentence(error.text),
        errors=[*error.texts.items()],
        headers=headers,
        **more,
    )


def invalid_value(field: str, why: str) -> ProblemError:
    """Return the problem for one invalid value of a request."""
    return problem_of(invalid(field, why))


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
