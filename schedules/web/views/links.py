"""Pages that a link in a message opens without a login: answer a notification, answer an agent, stop the agents.

Only a POST changes something, so that link scanners and previews are harmless.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from schedules.models import Approval, Event
from schedules.result import Code, Err, Ok, Result, invalid
from schedules.services import Actor
from schedules.services.people.profiles import find_active
from schedules.services.runs import answers
from schedules.services.runs.agent_stops import read_stop, stop_agents
from schedules.services.runs.answers import DONE, SKIP, SNOOZE, UNDO, AnsweredQuestion, LinkedQuestion
from schedules.services.runs.approvals import answer_approval, find_linked, state_words
from schedules.services.runs.question_words import describe_question
from schedules.tasks import signed_links
from schedules.tasks.signed_links import Button, ExpiredLinkError, UnknownLinkError
from schedules.web.messages import message_of, status_of
from schedules.web.views.inbox import confirmation_of_approval, read_answer, stopped_message
from schedules.web.views.page import actor_of

FROM_ALERT = "Link in an alert"
SNOOZES = {"10 minutes": "10 minutes", "1 hour": "1 hour", "tomorrow at 9:00": "Tomorrow morning"}
_LABELS = {Button.DONE: "Done", Button.SNOOZE: "Snooze for 10 minutes", Button.SKIP: "Skip the next run"}
Link = TypeVar("Link")
Found = TypeVar("Found")
View = Callable[[HttpRequest, str], HttpResponse]


def opened_by_link(view: View) -> View:
    """Let a page be opened without a login, and keep its address out of caches, referrers and search engines.

    Whoever has the address can act.
    """

    def respond(request: HttpRequest, token: str) -> HttpResponse:
        response = view(request, token)
        response["Referrer-Policy"] = "no-referrer"
        response["Cache-Control"] = "no-store"
        response["X-Robots-Tag"] = "noindex"
        return response

    return login_not_required(csrf_exempt(require_http_methods(["GET", "HEAD", "POST"])(respond)))


def _find(
    request: HttpRequest,
    token: str,
    read: Callable[[str], Link],
    find: Callable[[Link, Actor | None], Result[Found]],
) -> Result[Found]:
    """Return what a link is about, for its owner or for the logged-in person."""
    try:
        link = read(token)
    except ExpiredLinkError:
        return Err(Code.LINK_EXPIRED)
    except UnknownLinkError:
        return Err(Code.LINK_UNKNOWN)
    return find(link, actor_of(request) if request.user.is_authenticated else None)


def _page(
    request: HttpRequest, name: str, status: int, owner_id: int | None = None, **context: Any
) -> HttpResponse:
    """Render a page; somebody who is logged in as another person is told so."""
    is_of_somebody_else = (
        owner_id is not None and request.user.is_authenticated and request.user.pk != owner_id
    )
    context["is_of_somebody_else"] = is_of_somebody_else
    return render(request, f"schedules/{name}.html", context, status=status)


@opened_by_link
def answer(request: HttpRequest, token: str) -> HttpResponse:
    """Show the question of a link, or answer it."""
    lookup = _find(request, token, signed_links.read_answer, answers.find_linked)
    if isinstance(lookup, Err):
        return _refuse(request, lookup)
    linked = lookup.value
    if request.method != "POST":
        return _show_question(request, linked)
    button = linked.link.button
    chosen = request.POST.get("answer", "") if button is Button.PAGE else str(button)
    result = _answer(request, linked, chosen)
    refreshed = _find(request, token, signed_links.read_answer, answers.find_linked)
    assert isinstance(refreshed, Ok)
    if isinstance(result, Ok):
        confirmation = confirmation_of_question(result.value, chosen)
        return _show_question(request, refreshed.value, confirmation=confirmation)
    status = status_of(result)
    if status == 404:
        return _refuse(request, result)
    return _show_question(request, refreshed.value, problem=message_of(result), status=status)


def _answer(request: HttpRequest, linked: LinkedQuestion, answer: str) -> Result[AnsweredQuestion]:
    until = None
    if answer not in (DONE, SNOOZE, SKIP, UNDO):
        return invalid("answer", "Choose one of the answers.")
    if answer == SNOOZE and linked.link.button is Button.PAGE:
        text = request.POST.get("words") or request.POST.get("until", "")
        parsed = answers.read_until(text, linked.job.timezone)
        if isinstance(parsed, Err):
            return parsed
        until = parsed.value
    seen = request.POST.get("seen", "")
    return answers.answer_by_link(
        linked, answer, until, seen=int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 9 else -1
    )


def confirmation_of_question(answered: AnsweredQuestion, answer: str) -> str:
    if answer == UNDO and not answered.is_repeated:
        return "The answer was undone."
    words = describe_question(answered.question, answered.job)
    return f"Already: {words}" if answered.is_repeated else words


def _show_question(
    request: HttpRequest,
    linked: LinkedQuestion,
    *,
    confirmation: str = "",
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    job, question, button = linked.job, linked.question, linked.link.button
    state = describe_question(question, job) if question else "Waiting for an answer."
    if not _wants_page(request):
        text = f"{problem or confirmation or state}\n"
        return HttpResponse(text, status=status, content_type="text/plain")
    is_answered = question is not None and question.status in question.ANSWERED
    last = question.answers[-1] if question and question.answers else None
    return _page(
        request,
        "answer",
        status,
        job.owner_id,
        job=job,
        message=job.argument("message"),
        state=state,
        confirmation=confirmation,
        problem=problem,
        typed=request.POST.get("words", "") if problem else "",
        label=_LABELS.get(button, ""),
        is_whole=button is Button.PAGE,
        is_answered=is_answered,
        can_snooze=not is_answered and (question is None or question.status != question.Status.CLOSED),
        can_skip=not is_answered and job.trigger_type != job.TriggerType.ONCE,
        can_undo=last is not None and last["answer"] != UNDO,
        seen=question.revision if question else 0,
        snoozes=SNOOZES,
    )


def _refuse(request: HttpRequest, problem: Err) -> HttpResponse:
    status, message = status_of(problem), message_of(problem)
    if not _wants_page(request):
        return HttpResponse(f"{message}\n", status=status, content_type="text/plain")
    return _page(request, "answer", status, problem=message)


def _wants_page(request: HttpRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "")


@opened_by_link
def approval(request: HttpRequest, token: str) -> HttpResponse:
    """Show what an agent asks, or answer it."""
    lookup = _find(request, token, signed_links.read_approval, find_linked)
    if isinstance(lookup, Err):
        return _page(request, "approval", status_of(lookup), problem=message_of(lookup))
    linked = lookup.value
    if request.method != "POST":
        return _show_approval(request, linked.approval)
    chosen, arguments = read_answer(request)
    result = answer_approval(linked.actor, linked.approval.pk, chosen, **arguments)
    if isinstance(result, Ok):
        confirmation = confirmation_of_approval(chosen, result)
        return _show_approval(request, result.value.approval, confirmation=confirmation)
    linked.approval.refresh_from_db()
    context = {"problem": message_of(result), "typed": arguments["text"]}
    return _show_approval(request, linked.approval, status_of(result), **context)


def _show_approval(
    request: HttpRequest, approval: Approval, status: int = 200, **context: str
) -> HttpResponse:
    return _page(
        request,
        "approval",
        status,
        approval.owner_id,
        approval=approval,
        zone=approval.job.timezone if approval.job else "UTC",
        state=state_words(approval),
        is_waiting=approval.status == Approval.Status.WAITING,
        **context,
    )


@opened_by_link
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the link in an alert does, or stop the agents of its owner."""
    user = find_active(signed_links.read_stop_token(token))
    if user is None:
        return _page(request, "stop_agents", 404, is_known=False)
    actor = Actor(user, Event.Door.LINK, FROM_ALERT)
    message = ""
    if request.method == "POST":
        result = stop_agents(actor)
        message = message_of(result) if isinstance(result, Err) else stopped_message(result.value)
    return _page(request, "stop_agents", 200, user.pk, is_known=True, message=message, stop=read_stop(actor))
