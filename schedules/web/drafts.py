"""Forms that were not saved, such as after a session ended: what was typed is kept in the session for their page."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.csrf import csrf_failure

from schedules import clock
from schedules.models import UserSession
from schedules.models.counting import count_up_to
from schedules.models.sessions import DRAFT, draft_key

KEY = DRAFT
PERSON = "cronty_person"
LARGEST = 65_536
# Before the log-in anybody can leave a draft: few are kept, and not for long.
MOST_UNKNOWN = 100
MOST_OF_PERSON = 20
KEPT_SECONDS = 12 * 3600
# The value of a secret is never written to a session.
NEVER_KEPT = ("csrfmiddlewaretoken", "value")
KEPT = "You were logged out. What you typed is kept: log in to continue."
LOGGED_OUT = "You were logged out, so nothing was changed. Log in and try again."
OUT_OF_DATE = "This page was opened before you logged in, so nothing was changed. Try again."
NOT_SAVED = "Not saved yet: check what you typed before, then save it."

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def keeps_draft(view: View, typed: Sequence[str] = ()) -> View:
    """Mark a view whose form is kept, if something was typed into these fields; its page shows what `take` returns."""
    view.keeps_draft = lambda posted: not typed or any(posted.get(name) for name in typed)  # type: ignore[attr-defined]
    return view


def remember_person(request: HttpRequest, response: HttpResponseBase) -> None:
    """Note in the browser whose pages it shows, for a form that is sent after the session has ended."""
    if request.user.is_authenticated and _person_of(request) != str(request.user.pk):
        response.set_signed_cookie(
            PERSON,
            str(request.user.pk),
            salt=PERSON,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )


def _person_of(request: HttpRequest) -> str:
    return str(request.get_signed_cookie(PERSON, "", salt=PERSON))


def refuse_token(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """Answer a form without a valid token (CSRF_FAILURE_VIEW): refuse that of another site, turn away our own."""
    is_ours = request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"
    return turn_away(request) if is_ours else csrf_failure(request, reason)


def turn_away(request: HttpRequest) -> HttpResponse:
    """Lead a form of an ended or earlier session back to its page, through the log-in if that page needs one."""
    view = _view_of(request)
    page = _page_with_form(request)
    is_known = request.user.is_authenticated
    if has_draft(request):
        if why := keep(request, page):
            return not_kept(request, f"You were logged out after you opened this form, and {why}.", page)
        if not is_known:
            messages.info(request, KEPT)
    else:
        messages.warning(request, OUT_OF_DATE if is_known else LOGGED_OUT)
    if is_known or not getattr(view, "login_required", True):
        return HttpResponseRedirect(page, status=303)
    return redirect_to_login(page)


def has_draft(request: HttpRequest) -> bool:
    """Return whether something was typed into the form that was sent."""
    return bool(getattr(_view_of(request), "keeps_draft", _keeps_nothing)(request.POST))


def not_kept(request: HttpRequest, problem: str, page: str) -> HttpResponse:
    """Refuse a form that cannot be kept, and say how to save what was typed."""
    context = {"problem": problem, "address": page}
    return render(request, "schedules/draft_not_kept.html", context, status=403)


def keep(request: HttpRequest, page: str = "", *, note: str = NOT_SAVED) -> str | None:
    """Keep the posted values for their page in the session, which a log-in takes over; return why not, or None.

    The page shows the note above them.
    """
    posted = request.POST.copy()
    for name in NEVER_KEPT:
        posted.pop(name, None)
    posted["action"] = request.path
    text = posted.urlencode()
    if len(text) > LARGEST:
        return "it is too large to be kept"
    person = str(request.user.pk) if request.user.is_authenticated else _person_of(request)
    if not request.user.is_authenticated:
        # Strangers must not use up what is kept for people who were logged in.
        user_key, most = (draft_key(person), MOST_OF_PERSON) if person else ("", MOST_UNKNOWN)
        kept = UserSession.objects.filter(user_key=user_key, expire_date__gt=clock.now())
        if count_up_to(kept, most) >= most:
            return "too many other forms are kept already"
        request.session.set_expiry(KEPT_SECONDS)
    request.session[KEY] = {
        "path": urlsplit(page or _page_with_form(request)).path,
        "data": text,
        "note": note,
        "person": person,
    }
    return None


def take(request: HttpRequest) -> QueryDict | None:
    """Return what was typed into a form of this page before, show its note, and forget it.

    Its `action` is the address that the form was sent to.
    """
    kept = request.session.get(KEY)
    # A part that a page reads again, perhaps in another tab, does not show it.
    if not kept or kept["path"] != request.path or "HX-Request" in request.headers:
        return None
    del request.session[KEY]
    request.session.set_expiry(None)
    if kept.get("person") not in ("", None, str(request.user.pk)):
        # Somebody else has logged in since.
        return None
    if kept["note"]:
        messages.info(request, kept["note"])
    return QueryDict(kept["data"])


def _keeps_nothing(posted: QueryDict) -> bool:
    return False


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
    path = f"{sender.path}?{sender.query}" if sender.query else sender.path
    is_ours = (sender.scheme, sender.netloc) == (request.scheme, request.get_host())
    if is_ours and url_has_allowed_host_and_scheme(path, None) and path.startswith("/"):
        return path
    return reverse("schedules:jobs")
