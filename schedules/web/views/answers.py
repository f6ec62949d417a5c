"""Answers to notifications: the answer page, which their links open without a login, and the form on job pages."""

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from schedules.models import Job
from schedules.result import Code, Err, Kind, Ok, Result, invalid
from schedules.services.runs import answers
from schedules.services.runs.answers import DONE, SKIP, SNOOZE, UNDO, AnsweredQuestion, LinkedQuestion
from schedules.services.runs.question_words import describe_question
from schedules.tasks.signed_links import (
    LONGEST_TOKEN,
    Button,
    ExpiredLinkError,
    UnknownLinkError,
    read_answer,
)
from schedules.web.messages import message_of
from schedules.web.views.page import actor_of, finish, is_of_somebody_else, keep_address_private

SNOOZES = {"10 minutes": "10 minutes", "1 hour": "1 hour", "tomorrow at 9:00": "Tomorrow morning"}
_STATUSES = {Kind.NOT_FOUND: 404, Kind.INVALID: 422, Kind.FORBIDDEN: 403, Kind.QUOTA: 429, Kind.TOO_FAST: 429}
_LABELS = {Button.DONE: "Done", Button.SNOOZE: "Snooze for 10 minutes", Button.SKIP: "Skip the next run"}


@login_not_required
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest, token: str) -> HttpResponse:
    """Show the question of a link; only a POST answers it, so that link scanners and previews are harmless."""
    lookup = _read(request, token)
    if isinstance(lookup, Err):
        return _refuse(request, lookup)
    linked = lookup.value
    if request.method != "POST":
        return _show(request, linked)
    answer = request.POST.get("answer", "")
    if linked.link.button is not Button.PAGE:
        answer = str(linked.link.button)
    result = _answer(request, linked, answer)
    refreshed = _read(request, token)
    assert isinstance(refreshed, Ok)
    if isinstance(result, Ok):
        return _show(request, refreshed.value, confirmation=_confirmation(result.value, answer))
    if result.kind == Kind.NOT_FOUND:
        return _refuse(request, result)
    return _show(request, refreshed.value, problem=message_of(result), status=_STATUSES.get(result.kind, 409))


def _read(request: HttpRequest, token: str) -> Result[LinkedQuestion]:
    try:
        link = read_answer(token if len(token) <= LONGEST_TOKEN else "")
    except ExpiredLinkError:
        return Err(Code.LINK_EXPIRED)
    except UnknownLinkError:
        return Err(Code.LINK_UNKNOWN)
    return answers.find_linked(link, actor_of(request) if request.user.is_authenticated else None)


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


def _confirmation(answered: AnsweredQuestion, answer: str) -> str:
    if answered.is_repeated:
        return f"Already: {describe_question(answered.question, answered.job)}"
    if answer == UNDO:
        return "The answer was undone."
    return describe_question(answered.question, answered.job)


def _show(
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
        return keep_address_private(HttpResponse(text, status=status, content_type="text/plain"))
    is_answered = question is not None and question.status in question.ANSWERED
    last = question.answers[-1] if question and question.answers else None
    context: dict[str, Any] = {
        "job": job,
        "is_of_somebody_else": is_of_somebody_else(request, job.owner_id),
        "message": job.argument("message"),
        "state": state,
        "confirmation": confirmation,
        "problem": problem,
        "typed": request.POST.get("words", "") if problem else "",
        "label": _LABELS.get(button, ""),
        "is_whole": button is Button.PAGE,
        "is_answered": is_answered,
        "can_snooze": not is_answered and (question is None or question.status != question.Status.CLOSED),
        "can_skip": not is_answered and job.trigger_type != job.TriggerType.ONCE,
        "can_undo": last is not None and last["answer"] != UNDO,
        "seen": question.revision if question else 0,
        "snoozes": SNOOZES,
    }
    return keep_address_private(render(request, "schedules/answer.html", context, status=status))


def _refuse(request: HttpRequest, problem: Err) -> HttpResponse:
    status = 410 if problem.code == Code.LINK_EXPIRED else _STATUSES.get(problem.kind, 409)
    message = message_of(problem)
    if not _wants_page(request):
        return keep_address_private(HttpResponse(f"{message}\n", status=status, content_type="text/plain"))
    return keep_address_private(render(request, "schedules/answer.html", {"problem": message}, status=status))


def _wants_page(request: HttpRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "")


def question_context(job: Job) -> dict[str, Any]:
    """Return the template context for the last question of a job."""
    question = answers.latest_question(job) if job.task == "notify" else None
    if question is None:
        return {}
    return {
        "question": question,
        "question_words": describe_question(question, job),
        "can_undo_answer": bool(question.answers) and question.answers[-1]["answer"] != UNDO,
        "can_snooze": question.is_pending and job.status not in (job.Status.PAUSED, job.Status.CANCELLED),
    }


@require_POST
def answer_job(request: HttpRequest, job_id: str) -> HttpResponse:
    """Answer the last notification of a job from its page."""
    answer, until = request.POST.get("answer", ""), request.POST.get("until", "").strip()
    phrase = f"{answer} {until}" if answer == SNOOZE and until else answer
    result = answers.answer_in_words(actor_of(request), job_id, phrase)
    confirmation = _confirmation(result.value, answer) if isinstance(result, Ok) else ""
    # `finish` formats the message, and names may contain braces.
    message = confirmation.replace("{", "{{").replace("}", "}}")
    return finish(request, result, message, reverse("schedules:job", args=[job_id]))
