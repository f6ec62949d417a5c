"""The answers to what agents ask: on the pages, and on the page that the link of an alert opens without a login."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from schedules.models import Approval
from schedules.result import Code, Err, Kind, Ok, Result
from schedules.services.runs.approvals import (
    ALWAYS,
    DENY,
    ONCE,
    REPLY,
    Answered,
    Linked,
    answer_approval,
    find_linked,
    state_words,
)
from schedules.tasks.answer_links import ExpiredLinkError, UnknownLinkError
from schedules.tasks.approval_links import read_token
from schedules.web.messages import message_of
from schedules.web.views.page import actor_of, finish

_STATUSES = {Kind.NOT_FOUND: 404, Kind.INVALID: 422, Kind.FORBIDDEN: 403}
_DENIED_IN_RUN = "Denied. The run goes on without it."
_SAID = {
    ONCE: "Allowed once. The run goes on.",
    ALWAYS: "Allowed, now and in later runs of this job. The run goes on.",
    DENY: "Denied. The run has ended.",
    REPLY: "Your answer was sent. The run goes on.",
}


@login_not_required
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """Show what an agent asks; only a POST answers, so that link scanners and previews are harmless."""
    lookup = _read(request, token)
    if isinstance(lookup, Err):
        status = 410 if lookup.code == Code.LINK_EXPIRED else 404
        return _sealed(
            render(request, "schedules/approval.html", {"problem": message_of(lookup)}, status=status)
        )
    linked = lookup.value
    if request.method != "POST":
        return _show(request, linked.approval)
    answer, sent = _sent(request)
    result = answer_approval(linked.actor, linked.approval.pk, answer, **sent)
    if isinstance(result, Ok):
        return _show(request, result.value.approval, said=_said(answer, result))
    linked.approval.refresh_from_db()
    status = _STATUSES.get(result.kind, 409)
    return _show(request, linked.approval, problem=message_of(result), status=status, typed=sent["text"])


@require_POST
def answer(request: HttpRequest, approval_id: int) -> HttpResponse:
    """Answer from the inbox or the page of a run."""
    chosen, sent = _sent(request)
    result = answer_approval(actor_of(request), approval_id, chosen, **sent)
    return finish(request, result, _said(chosen, result), reverse("schedules:inbox"))


def _said(answer: str, result: Result[Answered]) -> str:
    """Say what an answer has done."""
    if answer == DENY and isinstance(result, Ok) and result.value.approval.in_run:
        return _DENIED_IN_RUN
    return _SAID.get(answer, "")


def _sent(request: HttpRequest) -> tuple[str, dict[str, str]]:
    """Return the answer, what it is about, and its words: those of a button, or what was typed."""
    choice = request.POST.get("choice", "")
    answer = REPLY if choice else request.POST.get("answer", "")
    text = (choice or request.POST.get("text", "")) if answer == REPLY else ""
    return answer, {"seen": request.POST.get("seen", ""), "text": text}


def _read(request: HttpRequest, token: str) -> Result[Linked]:
    try:
        found = read_token(token)
    except ExpiredLinkError:
        return Err(Code.LINK_EXPIRED)
    except UnknownLinkError:
        return Err(Code.LINK_UNKNOWN)
    return find_linked(found, actor_of(request) if request.user.is_authenticated else None)


def _show(
    request: HttpRequest,
    approval: Approval,
    *,
    said: str = "",
    problem: str = "",
    status: int = 200,
    typed: str = "",
) -> HttpResponse:
    context: dict[str, Any] = {
        "approval": approval,
        "zone": approval.job.timezone if approval.job else "UTC",
        "state": state_words(approval),
        "is_waiting": approval.status == Approval.Status.WAITING,
        "said": said,
        "problem": problem,
        "typed": typed,
    }
    return _sealed(render(request, "schedules/approval.html", context, status=status))


def _sealed(response: HttpResponse) -> HttpResponse:
    """Keep the address to this page: it is all that somebody needs to answer."""
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store"
    response["X-Robots-Tag"] = "noindex"
    return response
