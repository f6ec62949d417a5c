"""Rules for every request: refuses addresses with a NUL, resets the clock, keeps pages out of shared caches, requires a log-in."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib.auth.decorators import login_required
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from schedules.templatetags.cronty_times import use_clock
from schedules.web.drafts import remember_person, turn_away


@sync_and_async_middleware
def guard(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Check each request and mark each response as private, under WSGI and ASGI."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            _prepare(request)
            response: Awaitable[HttpResponseBase] = get_response(request)
            return _mark_private(await response)

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        _prepare(request)
        return _mark_private(get_response(request))

    return respond


def _prepare(request: HttpRequest) -> None:
    _remove_nul(request)
    # A thread would keep the clock of the person before, until the view asks for that of its reader.
    use_clock(24)


def _remove_nul(request: HttpRequest) -> None:
    """Refuse a NUL in the path and remove it from the query, because PostgreSQL raises an error for it."""
    if "\x00" in request.path:
        raise BadRequest("A NUL in the address")
    request.META["QUERY_STRING"] = request.META.get("QUERY_STRING", "").replace("%00", "%20")


def _mark_private(response: HttpResponseBase) -> HttpResponseBase:
    """Keep shared caches from showing a page to another person, unless the view has set its own header."""
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


class LoginRequired(LoginRequiredMiddleware):
    """Leads a form that is sent without a log-in back to its page: the address of an action shows none."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        match = request.resolver_match
        if request.method == "POST" and match is not None and "admin" not in match.app_names:
            return turn_away(request)
        return super().handle_no_permission(request, view_func)


def requires_login(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Require a log-in for a page or an action, also in a project without our middleware."""
    required = login_required(view)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and not request.user.is_authenticated:
            return turn_away(request)
        response = required(request, *args, **kwargs)
        remember_person(request, response)
        return response

    return guarded
