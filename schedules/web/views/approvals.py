"""Answers to the questions and approval requests of agents, on the pages and by a link that needs no login."""

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
    AnsweredApproval,
    LinkedApproval,
    answer_approval,
    find_linked,
    state_words,
)
from schedules.tasks.signed_links import ExpiredLinkError, UnknownLinkError, read_approval
from schedules.web.messages import message_of
from schedules.web.views.page import actor_of, finish, is_of_somebody_else, keep_address_private

_STATUSES = {Kind.NOT_FOUND: 404, Kind.INVALID: 422, Kind.FORBIDDEN: 403}
_DENIED_IN_RUN = "Denied. The run goes on without it."
_CONFIRMATIONS = {
    ONCE: "Allowed once. The run goes on.",
    ALWAYS: "Allowed, now and in later runs of this job. The run goes on.",
    DENY: "Denied. The run has ended.",
    REPLY: "Your answer was sent. The run goes on.",
}


@login_not_required
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, token: str) -> HttpResponse:
    """Show what an agent asks; only a POST answers it, so that link scanners and previews are harmless."""
    lookup = _read(request, token)
    if isinstance(lookup, Err):
        status = 410 if lookup.code == Code.LINK_EXPIRED else 404
        context = {"problem": message_of(lookup)}
        return keep_address_private(render(request, "schedules/approval.html", context, status=status))
    linked = lookup.value
    if request.method != "POST":
        return _show(request, linked.approval)
    answer, arguments = _read_answer(request)
    result = answer_approval(linked.actor, linked.approval.pk, answer, **arguments)
    if isinstance(result, Ok):
        return _show(request, result.value.approval, confirmation=_confirmation(answer, result))
    linked.approval.refresh_from_db()
    status = _STATUSES.get(result.kind, 409)
    return _show(request, linked.approval, problem=message_of(result), status=status, typed=arguments["text"])


@require_POST
def answer(request: HttpRequest, approval_id: int) -> HttpResponse:
    """Answer from the inbox or the page of a run."""
    chosen, arguments = _read_answer(request)
    result = answer_approval(actor_of(request), approval_id, chosen, **arguments)
    return finish(request, result, _confirmation(chosen, result), reverse("schedules:inbox"))


def _confirmation(answer: str, result: Result[AnsweredApproval]) -> str:
    """Say what an answer has done."""
    if answer == DENY and isinstance(result, Ok) and result.value.approval.in_run:
        return _DENIED_IN_RUN
    return _CONFIRMATIONS.get(answer, "")


def _read_answer(request: HttpRequest) -> tuple[str, dict[str, str]]:
    """Return the answer, and the other arguments of `answer_approval`; a reply is the text of a button or typed."""
    choice = request.POST.get("choice", "")
    answer = REPLY if choice else request.POST.get("answer", "")
    text = (choice or request.POST.get("text", "")) if answer == REPLY else ""
    return answer, {"seen": request.POST.get("seen", ""), "text": text}


def _read(request: HttpRequest, token: str) -> Result[LinkedApproval]:
    try:
        link = read_approval(token)
    except ExpiredLinkError:
        return Err(Code.LINK_EXPIRED)
    except UnknownLinkError:
        return Err(Code.LINK_UNKNOWN)
    return find_linked(link, actor_of(request) if request.user.is_authenticated else None)


def _show(
    request: HttpRequest,
    approval: Approval,
    *,
    confirmation: str = "",
    problem: str = "",
    status: int = 200,
    typed: str = "",
) -> HttpResponse:
    context: dict[str, Any] = {
        "approval": approval,
        "is_of_somebody_else": is_of_somebody_else(request, approval.owner_id),
        "zone": approval.job.timezone if approval.job else "UTC",
        "state": state_words(approval),
        "is_waiting": approval.status == Approval.Status.WAITING,
        "confirmation": confirmation,
        "problem": problem,
        "typed": typed,
    }
    return keep_address_private(render(request, "schedules/approval.html", context, status=status))
