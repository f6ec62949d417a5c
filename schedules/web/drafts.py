"""Drafts: what a person had typed into a form when the session ended, kept until after the log-in."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from schedules import clock
from schedules.models import UserSession
from schedules.models.counting import count_up_to

KEY = "cronty_draft"
LARGEST = 65_536
# Before the log-in anybody can leave a draft: few are kept, and not for long.
MOST_UNKNOWN = 100
KEPT_SECONDS = 12 * 3600


def keeps_draft(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Require a log-in for a form, but keep what is posted without one, or with the token of an earlier log-in.

    A form of another site is refused: it has neither the token nor our origin.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        refusal = _csrf_refusal(request) if request.method == "POST" else None
        if refusal is not None and not _is_same_origin(request):
            return refusal
        is_known = request.user.is_authenticated
        is_draft = request.method == "POST" and (refusal is not None or not is_known)
        if is_draft and (why := keep(request)):
            return render(request, "schedules/draft_not_kept.html", {"why": why}, status=403)
        if not is_known:
            return redirect_to_login(request.get_full_path())
        if refusal is not None:
            return HttpResponseRedirect(request.get_full_path(), status=303)
        return view(request, *args, **kwargs)

    # The checks are made here.
    return login_not_required(csrf_exempt(guarded))


def keep(request: HttpRequest) -> str | None:
    """Keep the posted values in the session, which a log-in takes over; return why not, or None."""
    posted = request.POST.copy()
    posted.pop("csrfmiddlewaretoken", None)
    text = posted.urlencode()
    if len(text) > LARGEST:
        return "it is too large to be kept"
    if not request.user.is_authenticated:
        unknown = UserSession.objects.filter(user_key="", expire_date__gt=clock.now())
        if count_up_to(unknown, MOST_UNKNOWN) >= MOST_UNKNOWN:
            return "too many other forms are kept already"
        request.session.set_expiry(KEPT_SECONDS)
    request.session[KEY] = {"path": request.path, "data": text}
    return None


def take(request: HttpRequest) -> QueryDict | None:
    """Return what was typed into this form before the log-in, and forget it."""
    kept = request.session.get(KEY)
    if not kept or kept["path"] != request.path:
        return None
    del request.session[KEY]
    request.session.set_expiry(None)
    return QueryDict(kept["data"])


class _Accepted(HttpResponse):
    """The answer to a request with a valid token."""


@csrf_protect
def _check_token(request: HttpRequest) -> HttpResponse:
    return _Accepted()


def _csrf_refusal(request: HttpRequest) -> HttpResponse | None:
    answer = _check_token(request)
    return None if isinstance(answer, _Accepted) else answer


def _is_same_origin(request: HttpRequest) -> bool:
    return request.headers.get("Origin") == f"{request.scheme}://{request.get_host()}"
