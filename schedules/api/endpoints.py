"""Decorators that declare routes, with their scope, idempotency keys and checks of query parameters."""

import functools
import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status
from ninja.params.models import Query as QueryParameters
from pydantic import BaseModel

from schedules.api.auth import READS, WRITES, actor_of
from schedules.api.problems import ProblemError, expect, invalid_value
from schedules.services.idempotency import FIELD, answer_once

Function = Callable[..., Any]
# A cache buster that some clients add.
_IGNORED = ("_",)
_STORED_HEADERS = ("ETag", "Location")


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
    repeatable: bool = False,
    needs_match: bool = False,
    takes_match: bool = False,
) -> Callable[[Function], Function]:
    """`repeatable` routes take an Idempotency-Key; their functions return a document and take a `response`."""

    def declare(function: Function) -> Function:
        accepted = _query_names(function)

        @functools.wraps(function)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            check_query(request, accepted)
            key = request.headers.get(FIELD)
            if key is None:
                return function(request, *args, **kwargs)
            if not repeatable:
                raise invalid_value(FIELD, "this address takes no idempotency key")
            return _answer_once(request, key, functools.partial(function, request, *args, **kwargs))

        # Evaluate annotations here: ninja would look up those of a wrapper in this module.
        checked.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
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
                "x-repeatable": repeatable,
                "x-if-match": "required" if needs_match else "optional" if takes_match else "",
            },
        )(checked)
        return function

    return declare


def _answer_once(request: HttpRequest, key: str, call: Function) -> Any:
    """Call the function, or return what it returned before to the same request."""
    response: HttpResponse = call.keywords["response"]  # type: ignore[attr-defined]

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
