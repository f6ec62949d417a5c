"""The URLs and error handlers of the API; only the web process loads them."""

import functools
import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from schedules import __version__
from schedules.api import (
    access,
    agents,
    calendars,
    channels,
    events,
    heartbeats,
    incidents,
    jobs,
    many,
    preferences,
    prompts,
    runs,
    schedule,
)
from schedules.api.bodies import BodyParser, too_large
from schedules.api.openapi import document
from schedules.api.problems import ProblemError, problem_of
from schedules.result import Code, Err, RefusedError, sentence
from schedules.spec.job import reason_of

logger = logging.getLogger(__name__)

api = NinjaAPI(
    title="Cronty",
    version=__version__,
    description="Jobs, runs and prompts over HTTP, by the same rules as the pages and tools.",
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
    parser=BodyParser(),
)
api.add_router("/jobs", jobs.router)
api.add_router("/runs", runs.router)
api.add_router("", schedule.router)
api.add_router("", many.router)
api.add_router("/prompts", prompts.router)
api.add_router("", agents.router)
api.add_router("/events", events.router)
api.add_router("/calendars", calendars.router)
api.add_router("/channels", channels.router)
api.add_router("/incidents", incidents.router)
api.add_router("/heartbeats", heartbeats.router)
api.add_router("/preferences", preferences.router)
api.add_router("", access.router)


@api.exception_handler(ProblemError)
def _refused(request: HttpRequest, error: ProblemError) -> HttpResponse:
    return error.response()


@api.exception_handler(RefusedError)
def _refused_by_operation(request: HttpRequest, refused: RefusedError) -> HttpResponse:
    """Say why an operation refuses; what somebody else changed first fails the precondition of the request."""
    has_tag = request.headers.get("If-Match", "*").strip() not in ("", "*")
    is_outdated = has_tag and refused.error.code == Code.JOB_CHANGED
    return problem_of(refused.error, status=412 if is_outdated else None).response()


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Name each field that is missing, unknown or of a wrong type."""
    problems = [_field_problem(each) for each in error.errors]
    detail = "; ".join(f"{field}: {why}" for field, why in problems[:5])
    return ProblemError(422, "invalid", detail, errors=problems).response()


def _field_problem(error: dict[str, Any]) -> tuple[str, str]:
    # The first part is the place, such as the query; in a body, the second is the name of our parameter.
    location = list(error["loc"])
    location = location[2 if location[0] == "body" else 1 :]
    field = ".".join(map(str, location))[:200] or str(error["loc"][0])
    return field, sentence(reason_of(error))


@api.exception_handler(HttpError)
def _malformed(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Answer what ninja refuses; it wraps what `BodyParser` raises."""
    cause = error.__cause__
    if isinstance(cause, ProblemError):
        return cause.response()
    if isinstance(cause, RequestDataTooBig):
        return too_large().response()
    return ProblemError(error.status_code, "malformed", f"{error.message}.").response()


@api.exception_handler(Exception)
def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    if isinstance(error, RequestDataTooBig):
        return too_large().response()
    if isinstance(error, BadRequest):
        return ProblemError(400, "malformed", "The request cannot be read.").response()
    if isinstance(error, (OperationalError, InterfaceError)):
        logger.exception("The database did not answer %s", request.path)
        return problem_of(Err(Code.DATABASE_UNAVAILABLE)).response()
    logger.exception("An error in %s %s", request.method, request.path)
    return ProblemError(500, "error", "Something went wrong here; the server's log says more.").response()


def _without_login(view: Callable[..., Any]) -> Callable[..., Any]:
    """Let a view answer without a login, because it requires a token, and complete its responses."""
    if iscoroutinefunction(view):

        @functools.wraps(view)
        async def respond_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return _complete(request, await view(request, *args, **kwargs))

        return csrf_exempt(login_not_required(respond_async))

    @functools.wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _complete(request, view(request, *args, **kwargs))

    return csrf_exempt(login_not_required(respond))


def _complete(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Add the headers of the call rate and of caching, and turn Django's 405 into a problem."""
    if response.status_code == 405 and response.headers.get("Content-Type", "").startswith("text/html"):
        methods = sorted(part.strip() for part in response["Allow"].split(","))
        detail = f"This address takes {', '.join(methods)}."
        headers = {"Allow": ", ".join(methods)}
        response = ProblemError(405, "method_not_allowed", detail, headers=headers).response()
    if "rate_left" in vars(request):
        response["RateLimit-Limit"] = str(settings.CRONTY_MCP_CALLS_PER_MINUTE)
        response["RateLimit-Remaining"] = str(vars(request)["rate_left"])
        # The calls come back evenly within a minute.
        response["RateLimit-Reset"] = "60"
    response.headers.setdefault("Cache-Control", "private, no-store")
    return response


def api_document() -> str:
    """Return the OpenAPI document as JSON."""
    return document(api)


@csrf_exempt
@login_not_required
@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI document."""
    return HttpResponse(api_document(), content_type="application/json")


@csrf_exempt
@login_not_required
def unknown(request: HttpRequest) -> HttpResponse:
    """Say that there is no such address, whatever the method."""
    detail = "There is no such address. GET /api/v1/openapi.json lists all."
    return ProblemError(404, "not_found", detail).response()


def _patterns() -> list[URLPattern]:
    """Return one URL for each route; ninja has one for each method, all with the same view."""
    views: dict[str, tuple[Callable[..., Any], str]] = {}
    for pattern in api.urls[0]:
        # Leave out ninja's own page of the API.
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            views.setdefault(str(pattern.pattern), (pattern.callback, f"api-{pattern.name}"))
    list_view, name = views["events"]
    views["events"] = _list_or_stream(list_view, views["events/stream"][0]), name
    return [path(route, _without_login(view), name=name) for route, (view, name) in views.items()]


def _list_or_stream(list_view: Callable[..., Any], stream_view: Callable[..., Any]) -> Callable[..., Any]:
    """Answer with the list, or with the stream if the request accepts one, as those of `EventSource` do."""

    @functools.wraps(list_view)
    async def respond(request: HttpRequest) -> Any:
        if request.method == "GET" and "text/event-stream" in request.headers.get("Accept", ""):
            return await stream_view(request)
        return await sync_to_async(list_view)(request)

    return respond


urlpatterns = [
    path("openapi.json", openapi, name="api-openapi"),
    *_patterns(),
    # Anything else, line breaks included.
    re_path(r"^", unknown, name="api-unknown"),
]
