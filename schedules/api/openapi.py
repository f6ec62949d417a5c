"""The OpenAPI 3.1 document: what ninja derives from the routes, with refusals and headers added."""

import functools
import json
from typing import Any

from django.conf import settings
from django.urls import reverse
from ninja import NinjaAPI

from schedules.api.common import FieldProblem, ProblemOut
from schedules.api.problems import MAX_TAG_LENGTH, PROBLEM_JSON

_REF = "#/components/schemas/{model}"
_REFUSALS = {
    400: "The body is not readable JSON.",
    401: "No usable token.",
    403: "The token lacks the scope, or the owner may not do this.",
    404: "No such job, run or prompt for this token.",
    409: "The state, a quota or another change does not allow it.",
    412: "Somebody else changed the job first.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "A value is missing, unknown or refused; `errors` names the fields.",
    428: "If-Match is missing.",
    429: "Too many calls; `Retry-After` says when to go on.",
    503: "The database did not answer; try again.",
}
_RATE_HEADERS = {
    "RateLimit-Limit": "Calls per minute of this token.",
    "RateLimit-Remaining": "Calls that are left now.",
    "RateLimit-Reset": "Seconds until all are back.",
}


@functools.cache
def document(api: NinjaAPI) -> str:
    """Return the document as JSON; it is the same for everybody."""
    root = reverse("schedules:api-openapi").removesuffix("/openapi.json")
    schema: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=f"{root.lstrip('/')}/"))
    schema["servers"] = [{"url": getattr(settings, "CRONTY_URL", "").rstrip("/") or "/"}]
    schema["info"]["license"] = {"name": "MIT", "identifier": "MIT"}
    schema["components"]["schemas"] |= {
        model.__name__: model.model_json_schema(ref_template=_REF) for model in (FieldProblem, ProblemOut)
    }
    schema["components"]["schemas"]["ProblemOut"].pop("$defs", None)
    for operations in schema["paths"].values():
        for method, operation in operations.items():
            _complete(method, operation)
    return json.dumps(schema, ensure_ascii=False)


def _complete(method: str, operation: dict[str, Any]) -> None:
    """Add what the declaration of a route says besides types."""
    scope = operation.pop("x-scope")
    operation["x-scope"] = scope
    operation["description"] = f"{operation['description']}\n\nScope of the token: `{scope}`."
    has_body = "requestBody" in operation
    if has_body and not operation["requestBody"].get("required"):
        _leave_out_null(operation["requestBody"]["content"])
    statuses = {401, 403, 404, 422, 429, 503} | ({400, 413, 415} if has_body else set())
    if scope == "write":
        statuses |= {400, 409}
    if operation.pop("x-repeatable"):
        operation["parameters"].append(
            _header(
                "Idempotency-Key", "A repeated request with this key gets the first answer.", max_length=200
            )
        )
    if match := operation.pop("x-if-match"):
        statuses |= {412, 428} if match == "required" else {412}
        operation["parameters"].append(
            _header("If-Match", "The ETag of the job as you saw it, or *.", required=match == "required")
        )
    if operation.pop("x-last-event-id", False):
        operation["parameters"].append(
            {
                **_header("Last-Event-ID", "The id of the last event that you have seen."),
                "schema": {"type": "string", "pattern": r"^[0-9]{1,18}(-[0-9.]{1,1900})?$"},
            }
        )
    for answer in operation["responses"].values():
        answer["headers"] = {
            name: {"description": description, "schema": {"type": "integer"}}
            for name, description in _RATE_HEADERS.items()
        }
    content = {PROBLEM_JSON: {"schema": {"$ref": _REF.format(model="ProblemOut")}}}
    operation["responses"] |= {
        status: {"description": _REFUSALS[status], "content": content} for status in sorted(statuses)
    }


def _leave_out_null(content: dict[str, Any]) -> None:
    """Describe an optional body by its model alone; generated clients would send a null for one that is left out."""
    for each in content.values():
        models = [model for model in each["schema"].pop("anyOf", []) if model != {"type": "null"}]
        each["schema"] |= {"$ref": models[0]["$ref"]} if models else {}


def _header(
    name: str, description: str, *, required: bool = False, max_length: int = MAX_TAG_LENGTH
) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": max_length}
    return {"in": "header", "name": name, "required": required, "description": description, "schema": schema}
