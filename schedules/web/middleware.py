"""The middleware of the pages: request checks, the login requirement, and forms sent without a session."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.decorators import sync_and_async_middleware
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.csrf import csrf_failure

from schedules.templatetags.cronty_times import use_clock

LOGGED_OUT = "You were logged out, so nothing was changed. Log in and try again."
OUT_OF_DATE = "This page was opened before you logged in, so nothing was changed. Try again."


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
    """Refuse a NUL in the path and remove it from the query, because PostgreSQL raises an error for it."""
    if "\x00" in request.path:
        raise BadRequest("A NUL in the address")
    request.META["QUERY_STRING"] = request.META.get("QUERY_STRING", "").replace("%00", "%20")
    # Reset the thread's clock format, which may be the previous person's, until the view sets its own.
    use_clock(24)


def _mark_private(response: HttpResponseBase) -> HttpResponseBase:
    """Keep shared caches from storing the page, unless the view has set its own header."""
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response


class LoginRequired(LoginRequiredMiddleware):
    """Redirects a form that is sent without a login to the page of the form, because the action itself has no page."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        match = request.resolver_match
        if request.method == "POST" and match is not None and "admin" not in match.app_names:
            return _turn_away(request)
        return super().handle_no_permission(request, view_func)


def requires_login(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Require a login for a page or an action, even in a project without our middleware."""
    required = login_required(view)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST" and not request.user.is_authenticated:
            return _turn_away(request)
        return required(request, *args, **kwargs)

    return guarded


def refuse_token(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """Handle a form without a valid token (CSRF_FAILURE_VIEW): refuse one of another site, redirect one of ours."""
    is_ours = request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"
    return _turn_away(request) if is_ours else csrf_failure(request, reason)


def _turn_away(request: HttpRequest) -> HttpResponse:
    """Redirect a form of an expired or earlier session to its page, through the login if that page needs one."""
    page, is_logged_in = _page_with_form(request), request.user.is_authenticated
    messages.warning(request, OUT_OF_DATE if is_logged_in else LOGGED_OUT)
    if is_logged_in or not getattr(_view_of(request), "login_required", True):
        return HttpResponseRedirect(page, status=303)
    return redirect_to_login(page)


def _view_of(request: HttpRequest) -> Any:
    return request.resolver_match.func if request.resolver_match else None


def _page_with_form(request: HttpRequest) -> str:
    """Return the address of the page that sent the form, on this site."""
    page = getattr(_view_of(request), "view_class", None)
    if page is not None and hasattr(page, "get") and "get" in page.http_method_names:
        return request.get_full_path()
    try:
        sender = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return reverse("schedules:jobs")
    path = sender._replace(scheme="", netloc="").geturl()
    is_ours = (sender.scheme, sender.netloc) == (request.scheme, request.get_host())
    if is_ours and url_has_allowed_host_and_scheme(path, None) and path.startswith("/"):
        return path
    return reverse("schedules:jobs")
