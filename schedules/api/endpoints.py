"""Declaration of routes: which operation they call, their scope, idempotency keys and checks of query parameters."""

import functools
import inspect
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Router, Status
from ninja.params.models import Query as QueryParameters
from pydantic import BaseModel

from schedules.api.auth import READS, WRITES, actor_of
from schedules.api.bodies import BodyParser
from schedules.api.problems import ProblemError, invalid_value, required_revision, revision_in, tag_of
from schedules.result import Result, expect
from schedules.services.idempotency import FIELD, answer_once
from schedules.spec.job import JobSpec, ScheduleSpec

# A cache buster that some clients add.
_IGNORED = ("_",)
_STORED_HEADERS = ("ETag", "Location")
_PARAMETER = re.compile(r"[{](?:(int):)?(\w+)[}]")
# The largest number that a key can be.
_MAX_KEY = 2**63 - 1


def route(
    router: Router,
    call: str,
    operation: Callable[..., Result[Any]],
    answer: Any,
    *,
    body: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    is_optional: bool = False,
    status: int = 200,
    writes: bool | None = None,
    repeatable: bool = True,
    match: str = "",
    location: str = "",
    given: Callable[[HttpRequest], dict[str, Any]] | None = None,
) -> None:
    """Declare a route, like "POST /{job}/pause", that calls an operation with the values of its path, query and body.

    `is_optional` is about the body, `match` about the header If-Match, and `location` is the address of what is
    created; `given` adds what else the operation takes. Changes by POST take an Idempotency-Key unless `repeatable` is
    False: the stored answer holds no secrets.
    """
    method, _, path = call.partition(" ")
    names = {name: int if kind else str for kind, name in _PARAMETER.findall(path)}
    is_write = method != "GET" if writes is None else writes
    takes_key = repeatable and method == "POST" and is_write
    accepted = [field.alias or name for name, field in query.model_fields.items()] if query else []

    def act(request: HttpRequest, response: HttpResponse, values: dict[str, Any]) -> tuple[int, Any]:
        arguments = {name: _path_value(values[name]) for name in names}
        for name in ("body", "filters"):
            arguments |= _arguments_of(values[name]) if values.get(name) else {}
        if match:
            arguments["revision"] = (
                required_revision(request) if match == "required" else revision_in(request)
            )
        document = expect(operation(actor_of(request), **arguments, **(given(request) if given else {})))
        if answer is None:
            return 204, None
        if "revision" in document:
            response["ETag"] = tag_of(document["revision"])
        if location:
            root = reverse("schedules:api-openapi").removesuffix("openapi.json")
            response["Location"] = f"{root}{location.format(**document)}"
        return status, document

    def respond(request: HttpRequest, response: HttpResponse, **values: Any) -> Any:
        check_query(request, accepted)
        if is_write and body is None:
            _check_no_body(request)
        key = request.headers.get(FIELD)
        if key is None:
            return Status(*act(request, response, values))
        if not takes_key:
            raise invalid_value(FIELD, "this address takes no idempotency key")
        return _answer_once(request, response, key, functools.partial(act, request, response, values))

    parameters: dict[str, Any] = {"request": HttpRequest, "response": HttpResponse, **names}
    if query:
        parameters["filters"] = Annotated[query, QueryParameters(...)]
    if body:
        parameters["body"] = body | None if is_optional else body
    # ninja reads the parameters of a route from its signature.
    respond.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                annotation=kind,
                default=None if name == "body" and is_optional else inspect.Parameter.empty,
            )
            for name, kind in parameters.items()
        ]
    )
    respond.__name__ = operation.__name__
    docstring = inspect.getdoc(operation) or ""
    router.api_operation(
        [method],
        path,
        auth=WRITES if is_write else READS,
        response={204: None} if answer is None else {status: answer},
        by_alias=True,
        operation_id=operation.__name__,
        summary=docstring.partition("\n")[0].rstrip("."),
        description=docstring,
        openapi_extra={
            "x-scope": "write" if is_write else "read",
            "x-repeatable": takes_key,
            "x-if-match": match,
        },
    )(respond)


def _path_value(value: Any) -> Any:
    return min(value, _MAX_KEY) if isinstance(value, int) else value


def _arguments_of(values: BaseModel) -> dict[str, Any]:
    """Return the fields of a body or a query; those of the spec stay together as `options`."""
    spec = next((kind for kind in (JobSpec, ScheduleSpec) if isinstance(values, kind)), None)
    own = type(values).model_fields.keys() - (spec.model_fields.keys() if spec else ())
    return ({"options": values} if spec else {}) | {name: _plain(getattr(values, name)) for name in own}


def _plain(value: Any) -> Any:
    """Return a list of schemas as plain values."""
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return [each.model_dump() for each in value]
    return value


def _check_no_body(request: HttpRequest) -> None:
    """Refuse the fields of a body that the route does not take; an empty object is no body."""
    value = BodyParser().parse_body(request) if request.body else None
    if isinstance(value, dict) and value:
        errors = [(name[:70], "Unknown field.") for name in value]
        raise ProblemError(422, "invalid", "This address takes no body.", errors=errors)
    if value not in (None, {}):
        raise invalid_value("body", "this address takes none")


def _answer_once(
    request: HttpRequest, response: HttpResponse, key: str, act: Callable[[], tuple[int, Any]]
) -> Any:
    """Act, or return what was answered before to the same request."""

    def answer() -> dict[str, Any]:
        status, content = act()
        headers = {name: response[name] for name in _STORED_HEADERS if name in response}
        return {"status": status, "headers": headers, "content": content}

    fingerprint = {"method": request.method, "path": request.path, "body": request.body.decode()}
    stored, is_repeated = expect(answer_once(actor_of(request), key, fingerprint, answer))
    for name, value in stored["headers"].items():
        response[name] = value
    if is_repeated:
        response["Idempotent-Replayed"] = "true"
    return Status(stored["status"], stored["content"])


def check_query(request: HttpRequest, accepted: Collection[str]) -> None:
    """Refuse a query parameter that the route does not accept."""
    for name in request.GET:
        if name not in accepted and name not in _IGNORED:
            nearest = get_close_matches(name, accepted, 1)
            names = ", ".join(sorted(accepted)) or "none"
            why = f"Did you mean {nearest[0]}?" if nearest else f"This address takes {names}."
            raise ProblemError(
                422,
                "unknown_parameter",
                f"Unknown query parameter {name[:70]!r}. {why}",
                errors=[(name[:70], f"Unknown parameter. {why}")],
            )
