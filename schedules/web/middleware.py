"""The middleware of the pages: request checks, the login requirement, and drafts of forms sent without a login."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.decorators import sync_and_async_middleware
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.csrf import csrf_failure

from schedules import clock
from schedules.models import UserSession
from schedules.models.sessions import DRAFT, draft_key
from schedules.templatetags.cronty_times import use_clock

PERSON_COOKIE = "cronty_person"
MAX_DRAFT_LENGTH = 65_536
# Limits for drafts of a browser that isn't logged in now, but has shown this person's pages before.
MAX_DRAFTS = 20
DRAFT_SECONDS = 12 * 3600
# "value" is that of a secret, which must never be written to a session.
NEVER_STORED = ("csrfmiddlewaretoken", "value")
DRAFT_KEPT = "You were logged out. What you typed is kept: log in to continue."
DRAFT_NOT_KEPT = "What you typed isn't kept, because it is too long or too many other forms are kept already: go back and copy it."
LOGGED_OUT = "You were logged out, so nothing was changed. Log in and try again."
OUT_OF_DATE = "This page was opened before you logged in, so nothing was changed. Try again."
DRAFT_RESTORED = "Not saved yet: check what you typed before, then save it."

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


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
        response = required(request, *args, **kwargs)
        person = str(request.user.pk)
        if request.user.is_authenticated and _person_of(request) != person:
            # Remember whose pages the browser shows, for a form that is sent after the session has ended.
            is_secure = settings.SESSION_COOKIE_SECURE
            response.set_signed_cookie(
                PERSON_COOKIE, person, salt=PERSON_COOKIE, secure=is_secure, httponly=True, samesite="Lax"
            )
        return response

    return guarded


def _person_of(request: HttpRequest) -> str:
    return str(request.get_signed_cookie(PERSON_COOKIE, "", salt=PERSON_COOKIE))


def refuse_token(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """Handle a form without a valid token (CSRF_FAILURE_VIEW): refuse one of another site, redirect one of ours."""
    is_ours = request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"
    return _turn_away(request) if is_ours else csrf_failure(request, reason)


def _turn_away(request: HttpRequest) -> HttpResponse:
    """Redirect a form of an expired or earlier session to its page, through the login if that page needs one."""
    page = _page_with_form(request)
    is_logged_in = request.user.is_authenticated
    if has_draft(request) and keep_draft(request, page):
        if not is_logged_in:
            messages.info(request, DRAFT_KEPT)
    else:
        messages.warning(request, OUT_OF_DATE if is_logged_in else LOGGED_OUT)
        if has_draft(request):
            messages.warning(request, DRAFT_NOT_KEPT)
    if is_logged_in or not getattr(_view_of(request), "login_required", True):
        return HttpResponseRedirect(page, status=303)
    return redirect_to_login(page)


def keeps_draft(view: View, fields: Sequence[str] = ()) -> View:
    """Mark a view that saves drafts of its form, if any of these fields is filled in; its page calls `take_draft`."""
    view.keeps_draft = lambda post: not fields or any(post.get(name) for name in fields)  # type: ignore[attr-defined]
    return view


def has_draft(request: HttpRequest) -> bool:
    """Return whether the form that was sent has input to keep."""
    has_input = getattr(_view_of(request), "keeps_draft", None)
    return bool(has_input and has_input(request.POST))


def keep_draft(request: HttpRequest, page: str = "", *, note: str = DRAFT_RESTORED) -> bool:
    """Store the posted values in the session, which survives a login, and return whether there was room for them.

    Their page shows the note above them.
    """
    posted = request.POST.copy()
    for name in NEVER_STORED:
        posted.pop(name, None)
    posted["action"] = request.path
    text = posted.urlencode()
    if len(text) > MAX_DRAFT_LENGTH:
        return False
    person = str(request.user.pk)
    if not request.user.is_authenticated:
        person = _person_of(request)
        drafts = UserSession.objects.filter(user_key=draft_key(person), expire_date__gt=clock.now())
        if not person or drafts.count() >= MAX_DRAFTS:
            return False
        request.session.set_expiry(DRAFT_SECONDS)
    path = urlsplit(page or _page_with_form(request)).path
    request.session[DRAFT] = {"path": path, "data": text, "note": note, "person": person}
    return True


def take_draft(request: HttpRequest) -> QueryDict | None:
    """Return the draft of a form of this page, show its note, and delete it.

    Its `action` is the address that the form was sent to.
    """
    draft = request.session.get(DRAFT)
    # Partial refreshes, perhaps of another tab, would not show the draft.
    if not draft or draft["path"] != request.path or "HX-Request" in request.headers:
        return None
    del request.session[DRAFT]
    request.session.set_expiry(None)
    if draft["person"] != str(request.user.pk):
        # Another person has logged in since.
        return None
    if draft["note"]:
        messages.info(request, draft["note"])
    return QueryDict(draft["data"])


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
