"""Two ways to act without a page: the quick line, which creates a reminder from a sentence, and the command palette."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from schedules import services
from schedules.limits import NAME_LENGTH
from schedules.models import Job
from schedules.result import Err, Ok, sentence
from schedules.services.job_list import find_jobs
from schedules.services.jobs.forecasts import next_runs_of, quiet_warnings
from schedules.services.jobs.schedule_texts import schedule_of
from schedules.services.people.holidays import calendar_titles
from schedules.tasks.asking import read_ask
from schedules.templatetags.cronty_times import plain_at
from schedules.web.messages import message_of
from schedules.web.views.page import Page, actor_of, page_of, render_page
from schedules.when.sentences import Sentence, parse_sentence

PREVIEWED_RUNS = 3
MAX_JOBS = 8
ACTIVE = (Job.Status.PENDING, Job.Status.PAUSED)


@require_http_methods(["GET", "HEAD", "POST"])
def quick(request: HttpRequest) -> HttpResponse:
    """Preview the line, or create its reminder for the person's topic; without a topic, open the form instead."""
    page = page_of(request)
    line = (request.POST if request.method == "POST" else request.GET).get("line", "")
    try:
        parsed = parse_sentence(line, now=page.now, timezone=page.zone)
        offered = calendar_titles(page.actor.user.pk) if parsed.plan.calendars else {}
        columns = schedule_of(parsed.plan, offered).fields | {"timezone": page.zone}
        asked = f", asked {read_ask(parsed.ask).words}" if parsed.ask else ""
    except ValueError as error:
        if request.method == "POST":
            messages.warning(request, sentence(str(error)))
            return HttpResponseRedirect(f"{reverse('schedules:jobs')}?{urlencode({'line': line})}")
        problem = sentence(str(error)) if line.strip() else ""
        return render_page(request, "schedules/parts/quick_preview.html", {"problem": problem})
    if request.method == "POST":
        return _create(request, page, parsed, line, columns)
    previewed = services.preview(page.actor.user.pk, columns, page.now, PREVIEWED_RUNS)
    if isinstance(previewed, Err):
        return render_page(request, "schedules/parts/quick_preview.html", {"problem": message_of(previewed)})
    context = {
        "parsed": parsed,
        "asked": asked,
        "preview": previewed.value,
        "topic": next(iter(page.profile.default_place.values()), ""),
    }
    return render_page(request, "schedules/parts/quick_preview.html", context)


def _create(
    request: HttpRequest, page: Page, parsed: Sentence, line: str, columns: dict[str, Any]
) -> HttpResponse:
    if not page.profile.default_place:
        messages.info(request, "Choose a topic for this reminder. Under Settings, you can set one for all.")
        return HttpResponseRedirect(f"{reverse('schedules:new')}?{urlencode({'line': line})}")
    result = services.schedule(
        page.actor,
        name=parsed.what[:200],
        task="notify",
        kwargs={
            "message": parsed.what,
            **page.profile.default_place,
            **({"ask": parsed.ask} if parsed.ask else {}),
        },
        args=[],
        idempotency_key=request.POST.get("idempotency_key", "")[:64] or None,
        request={"line": line},
        **columns,
    )
    match result:
        case Err() as problem:
            messages.warning(request, message_of(problem))
        case Ok(created):
            job = created.job
            first = f" First run {plain_at(job.next_run_at, job.timezone)}." if job.next_run_at else ""
            held = quiet_warnings(job, next_runs_of(job, page.now))
            messages.success(
                request,
                " ".join([f'Created "{job.name}".{first}', *held]),
                extra_tags=f"undo-create {job.public_id}",
            )
    return HttpResponseRedirect(reverse("schedules:jobs"))


@dataclass(frozen=True)
class Action:
    """An action on a job, chosen by a first word like "pause"."""

    label: str
    """With braces in place of the name of the job."""
    url_name: str
    statuses: tuple[str, ...]
    """The statuses of the jobs it applies to."""
    is_sent: bool = True
    """Whether choosing it performs it; otherwise it opens a page."""


ACTIONS = {
    "run": Action("Run {} now", "run-now", tuple(status for status in Job.Status if status != "cancelled")),
    "pause": Action("Pause {}", "pause", (Job.Status.PENDING,)),
    "resume": Action("Resume {}", "resume", (Job.Status.PAUSED,)),
    "edit": Action("Edit {}", "edit", ACTIVE, is_sent=False),
}


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """Render the matches for a search: jobs by name and, if it begins with a verb, that action on jobs."""
    typed = " ".join(request.GET.get("q", "")[:NAME_LENGTH].split())
    verb, _, text = typed.partition(" ")
    action = ACTIONS.get(verb.lower())
    actor = actor_of(request)
    options: list[dict[str, Any]] = []
    if action and text:
        options = [
            _option(job, action)
            for job in find_jobs(actor, text, MAX_JOBS)
            if actor.may_change(job) and job.status in action.statuses
        ]
    if typed:
        options += [_option(job) for job in find_jobs(actor, typed, MAX_JOBS)]
    return render_page(request, "schedules/parts/palette_jobs.html", {"options": options[:MAX_JOBS]})


def _option(job: Job, action: Action | None = None) -> dict[str, Any]:
    before, _, after = (action.label if action else "{}").partition("{}")
    url_name = action.url_name if action else "job"
    return {
        "address": reverse(f"schedules:{url_name}", args=[job.public_id]),
        "is_sent": action is not None and action.is_sent,
        "before": before,
        "name": job.name,
        "after": after,
        "state": "" if job.status == Job.Status.PENDING else job.get_status_display(),
    }
