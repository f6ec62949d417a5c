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
from schedules.api.preconditions import required_revision, revision_in, tag_of
from schedules.api.problems import ProblemError, invalid_value
from schedules.result import Result, expect
from schedules.services.idempotency import FIELD, answer_once
from schedules.spec.job import JobSpec, ScheduleSpec

Function = Callable[..., Any]
# A cache buster that some clients add.
_IGNORED = ("_",)
_KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD
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
    match: str = "",
    location: str = "",
    given: Callable[[HttpRequest], dict[str, Any]] | None = None,
    **options: Any,
) -> None:
    """Declare a route, like "POST /{job}/pause", that calls an operation with the values of its path, query and body.

    `is_optional` is about the body, `match` about the header If-Match, and `location` is the address of what is
    created; `given` adds what else the operation takes.
    """
    method, _, path = call.partition(" ")
    names = {name: int if kind else str for kind, name in _PARAMETER.findall(path)}

    def respond(request: HttpRequest, response: HttpResponse, **values: Any) -> Any:
        arguments = {name: _path_value(values[name]) for name in names}
        for name in ("body", "filters"):
            arguments |= _arguments_of(values[name]) if values.get(name) else {}
        if match:
            arguments["revision"] = (
                required_revision(request) if match == "required" else revision_in(request)
            )
        document = expect(operation(actor_of(request), **arguments, **(given(request) if given else {})))
        if answer is None:
            return Status(204, None)
        if "revision" in document:
            response["ETag"] = tag_of(document["revision"])
        if location:
            root = reverse("schedules:api-openapi").removesuffix("openapi.json")
            response["Location"] = f"{root}{location.format(**document)}"
        return Status(status, document)

    parameters: dict[str, Any] = {"request": HttpRequest, "response": HttpResponse, **names}
    if query:
        parameters["filters"] = Annotated[query, QueryParameters(...)]
    if body:
        parameters["body"] = body | None if is_optional else body
    respond.__name__, respond.__doc__ = operation.__name__, operation.__doc__
    respond.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                _KEYWORD,
                annotation=kind,
                default=None if name == "body" and is_optional else inspect.Parameter.empty,
            )
            for name, kind in parameters.items()
        ]
    )
    is_write = method != "GET" if writes is None else writes
    answers = {204: None} if answer is None else {status: answer}
    _route(
        router,
        method,
        path,
        answers,
        WRITES if is_write else READS,
        needs_match=match == "required",
        takes_match=bool(match),
        **options,
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


def reads(router: Router, path: str, answer: Any, **options: Any) -> Callable[[Function], Function]:
    """Declare a route that only reads."""
    return _route(router, "GET", path, {200: answer}, READS, **options)


def reads_by_post(router: Router, path: str, answer: Any, **options: Any) -> Callable[[Function], Function]:
    """Declare a route that takes its query in a body and changes nothing."""
    return _route(router, "POST", path, {200: answer}, READS, **options)


def changes(
    router: Router, method: str, path: str, answers: dict[int, Any], **options: Any
) -> Callable[[Function], Function]:
    """Declare a route that changes something."""
    return _route(router, method, path, answers, WRITES, **options)


def _route(
    router: Router,
    method: str,
    path: str,
    answers: dict[int, Any],
    auth: Any,
    *,
    repeatable: bool = True,
    needs_match: bool = False,
    takes_match: bool = False,
) -> Callable[[Function], Function]:
    """Changes by POST take an Idempotency-Key unless `repeatable` is False: the stored answer holds no secrets."""
    takes_key = repeatable and method == "POST" and auth is WRITES

    def declare(function: Function) -> Function:
        accepted = _query_names(function)
        # Evaluate annotations here: ninja would look up those of a wrapper in this module.
        signature = inspect.signature(function, eval_str=True)
        takes_response, takes_body = "response" in signature.parameters, "body" in signature.parameters

        @functools.wraps(function)
        def checked(request: HttpRequest, response: HttpResponse, **kwargs: Any) -> Any:
            check_query(request, accepted)
            if auth is WRITES and not takes_body:
                _check_no_body(request)
            if takes_response:
                kwargs["response"] = response
            key = request.headers.get(FIELD)
            if key is None:
                return function(request, **kwargs)
            if not takes_key:
                raise invalid_value(FIELD, "this address takes no idempotency key")
            return _answer_once(request, response, key, functools.partial(function, request, **kwargs))

        shown = [*signature.parameters.values()]
        if not takes_response:
            shown.insert(1, inspect.Parameter("response", _KEYWORD, annotation=HttpResponse))
        checked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        docstring = inspect.getdoc(function) or ""
        router.api_operation(
            [method],
            path,
            auth=auth,
            response=answers,
            by_alias=True,
            operation_id=function.__name__,
            summary=docstring.partition("\n")[0].rstrip("."),
            description=docstring,
            openapi_extra={
                "x-scope": "write" if auth is WRITES else "read",
                "x-repeatable": takes_key,
                "x-if-match": "required" if needs_match else "optional" if takes_match else "",
            },
        )(checked)
        return function

    return declare


def _check_no_body(request: HttpRequest) -> None:
    """Refuse the fields of a body that the route does not take; an empty object is no body."""
    value = BodyParser().parse_body(request) if request.body else None
    if isinstance(value, dict) and value:
        errors = [(name[:70], "Unknown field.") for name in value]
        raise ProblemError(422, "invalid", "This address takes no body.", errors=errors)
    if value not in (None, {}):
        raise invalid_value("body", "this address takes none")


def _answer_once(request: HttpRequest, response: HttpResponse, key: str, call: Function) -> Any:
    """Call the function, or return what it returned before to the same request."""

    def act() -> dict[str, Any]:
        answer = call()
        status, content = (answer.status_code, answer.value) if isinstance(answer, Status) else (200, answer)
        headers = {name: response[name] for name in _STORED_HEADERS if name in response}
        return {"status": status, "headers": headers, "content": content}

    fingerprint = {"method": request.method, "path": request.path, "body": request.body.decode()}
    stored, is_repeated = expect(answer_once(actor_of(request), key, fingerprint, act))
    for name, value in stored["headers"].items():
        response[name] = value
    if is_repeated:
        response["Idempotent-Replayed"] = "true"
    return Status(stored["status"], stored["content"])


def _query_names(function: Function) -> Collection[str]:
    """Return the query parameters of a route, which are the fields of its filter model."""
    names: set[str] = set()
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if any(
            isinstance(each, QueryParameters) for each in getattr(parameter.annotation, "__metadata__", ())
        ):
            model: type[BaseModel] = parameter.annotation.__origin__
            names |= {field.alias or name for name, field in model.model_fields.items()}
    return names


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
