"""Problem details (RFC 9457): refusals of the API as JSON that names the field and says what to do."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.http import JsonResponse
from django.urls import reverse

from schedules.api.messages import message_of
from schedules.result import Code, Err, Kind, invalid
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
        message_of(error),
        errors=[*error.texts.items()],
        headers=headers,
        **more,
    )


def invalid_value(field: str, why: str) -> ProblemError:
    """Return the problem for one invalid value of a request."""
    return problem_of(invalid(field, why))
