"""Actions on one job, and the page that pauses all jobs."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Job
from schedules.models.counting import counted
from schedules.result import Err, Ok, Result, sentence
from schedules.services.jobs.addresses import close_trigger, open_trigger
from schedules.services.jobs.forecasts import next_runs_of
from schedules.services.jobs.pause_all import pause_everything, read_state, resume_everything
from schedules.services.runs import answers
from schedules.tasks.outbound.signing import OVERLAP
from schedules.templatetags.cronty_times import day_and_clock, day_words
from schedules.web.messages import message_of
from schedules.web.views.job import NEW_ADDRESS, PAUSE, read_until
from schedules.web.views.links import confirmation_of_question
from schedules.web.views.page import (
    PageMixin,
    actor_of,
    back,
    find_job,
    finish,
    job_address,
    page_of,
    run_address,
    show_problem,
)
from schedules.when.phrases import PhraseError
from schedules.when.zones import local


def _finish(
    request: HttpRequest, job_id: str, verb: Callable[..., Result[Job]], message: str, **extra: Any
) -> HttpResponse:
    result = verb(actor_of(request), job_id, **extra)
    return finish(request, result, message, reverse("schedules:job", args=[job_id]))


@require_POST
def pause(request: HttpRequest, job_id: str) -> HttpResponse:
    """Pause a job; if the end cannot be parsed, redirect to the form with the input."""
    typed = {name: request.POST.get(name, "").strip() for name in PAUSE}
    try:
        until = read_until(typed["until"], page_of(request))
    except PhraseError:
        address = reverse("schedules:job", args=[job_id], query=typed)
        return HttpResponseRedirect(address, status=303)
    return _finish(
        request, job_id, services.pause_active, "{0.name} paused.", reason=typed["reason"], until=until
    )


@require_POST
def resume(request: HttpRequest, job_id: str) -> HttpResponse:
    return _finish(request, job_id, services.resume, "{0.name} resumed.")


@require_POST
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    return _finish(request, job_id, services.cancel, "{0.name} was stopped permanently.")


@require_POST
def rotate_key(request: HttpRequest, job_id: str) -> HttpResponse:
    """Give a job a new signing key, unless another tab has just done so."""
    message = f"{{0.name}} has a new signing key; the old one stays valid for {OVERLAP.days} days."
    return _finish(request, job_id, services.rotate_signing_key, message, shown=request.POST.get("shown", ""))


@require_POST
def delete(request: HttpRequest, job_id: str) -> HttpResponse:
    result = services.delete(actor_of(request), job_id)
    message, address = "{0.name} moved to the trash.", reverse("schedules:jobs")
    return finish(request, result, message, address, tags="undo-delete {0.public_id}")


@require_POST
def restore(request: HttpRequest) -> HttpResponse:
    """Restore jobs from the trash, or a stopped one."""
    ids, is_deleted = request.POST.getlist("job")[:500], "stopped" not in request.POST
    results = [services.restore(actor_of(request), job_id, is_deleted=is_deleted) for job_id in ids]
    restored = [result.value for result in results if isinstance(result, Ok)]
    for problem in results:
        if isinstance(problem, Err) and not restored:
            show_problem(request, problem)
        elif isinstance(problem, Err):
            # Not `show_problem`, whose 404 would hide that other jobs were restored.
            messages.error(request, message_of(problem))
    if restored:
        names = restored[0].name if len(restored) == 1 else f"{len(restored)} jobs"
        messages.success(request, f"{names} restored.")
    return back(request, job_address(restored[0]) if len(restored) == 1 else reverse("schedules:jobs"))


@require_POST
def skip(request: HttpRequest, job_id: str) -> HttpResponse:
    """Skip a run, a whole day or the next run, or undo that."""
    page = page_of(request)
    actor, now = page.actor, page.now
    slots: list[datetime] = []
    days: list[date] = []
    with suppress(ValueError):
        if text := request.POST.get("slot"):
            slots.append(datetime.fromisoformat(text))
        if text := request.POST.get("day"):
            days.append(date.fromisoformat(text))
    is_invalid = not slots and not days and (request.POST.get("slot") or request.POST.get("day"))
    if is_invalid or any(slot.tzinfo is None for slot in slots):
        messages.error(request, "Choose one of the next runs.")
        return back(request, reverse("schedules:job", args=[job_id]))
    is_undo = request.POST.get("undo") == "yes" and bool(slots or days)
    next_run = None if slots or days else next(iter(next_runs_of(find_job(actor, job_id), now, 1)), None)
    result = services.skip(actor, job_id, days, slots, undo=is_undo)
    message = ""
    if isinstance(result, Ok):
        moment, zone = next_run or next(iter(slots), None), result.value.timezone
        when = day_and_clock(moment, zone, now) if moment else day_words(days[0], local(now, zone))
        message = f"The run on {when} will {'happen after all' if is_undo else 'be skipped'}."
    return finish(request, result, message, reverse("schedules:job", args=[job_id]))


@require_POST
def run(request: HttpRequest, job_id: str) -> HttpResponse:
    """Start one run now; the schedule does not change."""
    page = page_of(request)
    job = find_job(page.actor, job_id)
    if job.status == Job.Status.CANCELLED and page.actor.may_change(job):
        messages.error(request, f"{job.name} was stopped permanently. Restore it to run it again.")
        return back(request, job_address(job))
    match services.run_now(page.actor, job_id):
        case Ok(execution):
            message = f"{execution.job_name} started."
            if not page.has_live_cluster:
                message = f"{execution.job_name} is queued. It will start when the worker is back."
            messages.success(request, message, extra_tags=f"run {execution.pk}")
            return back(request, run_address(execution))
        case Err() as problem:
            show_problem(request, problem)
            return back(request, reverse("schedules:job", args=[job_id]))


@require_POST
def answer(request: HttpRequest, job_id: str) -> HttpResponse:
    """Answer the last notification of a job from its page."""
    chosen, until = request.POST.get("answer", ""), request.POST.get("until", "").strip()
    phrase = f"{chosen} {until}" if chosen == answers.SNOOZE and until else chosen
    result = answers.answer_in_words(actor_of(request), job_id, phrase)
    address = reverse("schedules:job", args=[job_id])
    return finish(request, result, lambda answered: confirmation_of_question(answered, chosen), address)


@require_POST
def open_address(request: HttpRequest, job_id: str) -> HttpResponse:
    """Open the trigger address of a job, or give it a new key; the next page shows the address once."""
    result = open_trigger(
        actor_of(request),
        job_id,
        scheme=request.POST.get("scheme", ""),
        secret_name=request.POST.get("secret", "").strip(),
    )
    if isinstance(result, Ok):
        request.session[NEW_ADDRESS] = {"job": job_id, "url": result.value.url}
    return finish(request, result, "{0.job.name} has a new trigger address.", _trigger_tab(job_id))


@require_POST
def close_address(request: HttpRequest, job_id: str) -> HttpResponse:
    result = close_trigger(actor_of(request), job_id)
    return finish(request, result, "{0.name} has no trigger address any more.", _trigger_tab(job_id))


def _trigger_tab(job_id: str) -> str:
    return reverse("schedules:job", args=[job_id], query={"tab": "trigger"})


class PauseAllPage(PageMixin, TemplateView):
    """Shows what would be paused and what is paused, and does either."""

    template_name = "schedules/pause_all.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(state=read_state(self.actor), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        is_pause, typed = request.POST.get("verb") != "resume", request.POST.get("until", "").strip()
        try:
            until = read_until(typed, self.page) if is_pause else None
        except PhraseError as error:
            context = self.get_context_data(typed=typed, problem=sentence(str(error)))
            return self.render_to_response(context, status=422)
        changed = pause_everything(self.actor, until) if is_pause else resume_everything(self.actor)
        participle = "paused" if is_pause else "resumed"
        messages.success(request, f"{counted(len(changed.jobs), 'job')} {participle}.")
        if changed.refused:
            unchanged = counted(len(changed.refused), "job")
            messages.warning(request, f"{unchanged} left unchanged. {message_of(changed.refused[0])}")
        return HttpResponseRedirect(reverse("schedules:pause-all"))
