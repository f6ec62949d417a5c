"""The addresses of the API, which the web process alone loads."""

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
from schedules.api.bodies import BodyParser, too_large
from schedules.api.openapi import document
from schedules.api.problems import ProblemError, problem_of
from schedules.api.routes import (
    access,
    agents,
    bulk,
    calendars,
    channels,
    event_subscriptions,
    events,
    heartbeats,
    jobs,
    prompts,
    runs,
    schedule,
    terminal,
)
from schedules.result import Code, Err

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
api.add_router("", bulk.router)
api.add_router("/prompts", prompts.router)
api.add_router("/agents", agents.router)
api.add_router("/events", events.router)
api.add_router("/calendars", calendars.router)
api.add_router("/channels", channels.router)
api.add_router("/event-subscriptions", event_subscriptions.router)
api.add_router("/heartbeats", heartbeats.router)
api.add_router("", access.router)
api.add_router("", terminal.router)


@api.exception_handler(ProblemError)
def _refused(request: HttpRequest, error: ProblemError) -> HttpResponse:
    return error.response()


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Name each field that is missing, unknown or of a wrong type."""
    problems = [_field_problem(each) for each in error.errors]
    detail = "; ".join(f"{field}: {why}" for field, why in problems[:5])
    return ProblemError(422, "invalid", detail, errors=problems).response()


def _field_problem(error: dict[str, Any]) -> tuple[str, str]:
    # The first part says where it was; in a body, the second is the name of our parameter.
    place = list(error["loc"])
    place = place[2 if place[0] == "body" else 1 :]
    field = ".".join(map(str, place))[:200] or str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return field, "Unknown field."
    why = str(error["msg"])
    return field, why if why.endswith(".") else f"{why}."


@api.exception_handler(HttpError)
def _malformed(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Answer what ninja refuses; it wraps what the parser of bodies raises."""
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


def _open(view: Callable[..., Any]) -> Callable[..., Any]:
    """Let a view answer without a login, because it asks for a token, and finish its answers."""
    if iscoroutinefunction(view):

        @functools.wraps(view)
        async def respond_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return _finish(request, await view(request, *args, **kwargs))

        return csrf_exempt(login_not_required(respond_async))

    @functools.wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _finish(request, view(request, *args, **kwargs))

    return csrf_exempt(login_not_required(respond))


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
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
    """Return an address for each route; ninja has one for each method, which all lead to the same view."""
    views: dict[str, tuple[Callable[..., Any], str]] = {}
    for pattern in api.urls[0]:
        # Ninja's own page of the API does nothing here.
        if isinstance(pattern, URLPattern) and pattern.name != "api-root":
            views.setdefault(str(pattern.pattern), (pattern.callback, f"api-{pattern.name}"))
    listed, name = views["events"]
    views["events"] = _list_or_stream(listed, views["events/stream"][0]), name
    return [path(route, _open(view), name=name) for route, (view, name) in views.items()]


def _list_or_stream(listed: Callable[..., Any], streamed: Callable[..., Any]) -> Callable[..., Any]:
    """Answer with the list, or with the stream if that is asked for, as `EventSource` does."""

    @functools.wraps(listed)
    async def respond(request: HttpRequest) -> Any:
        if request.method == "GET" and "text/event-stream" in request.headers.get("Accept", ""):
            return await streamed(request)
        return await sync_to_async(listed)(request)

    return respond


urlpatterns = [
    path("openapi.json", openapi, name="api-openapi"),
    *_patterns(),
    # Whatever comes, line breaks included.
    re_path(r"^", unknown, name="api-unknown"),
]
