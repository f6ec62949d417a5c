"""The command palette: jobs, and what can be done with them, found by a few letters."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from schedules.limits import NAME_LENGTH
from schedules.models import Job
from schedules.services.job_list import jobs_found
from schedules.web.views.page import actor_of, render_page

MAX_JOBS = 8
ACTIVE = (Job.Status.PENDING, Job.Status.PAUSED)


@dataclass(frozen=True)
class Action:
    """What a first word like "pause" does with a job: the name of its page, and of which jobs."""

    words: str
    """With the name of the job in place of the braces."""
    page: str
    statuses: tuple[str, ...]
    is_sent: bool = True
    """Whether it is done at once, and not a page to open."""


ACTIONS = {
    "run": Action("Run {} now", "run-now", tuple(status for status in Job.Status if status != "cancelled")),
    "pause": Action("Pause {}", "pause", (Job.Status.PENDING,)),
    "resume": Action("Resume {}", "resume", (Job.Status.PAUSED,)),
    "edit": Action("Edit {}", "edit", ACTIVE, is_sent=False),
}


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """Render the options for what was typed: jobs by name, or with a verb before it what to do with them."""
    typed = " ".join(request.GET.get("q", "")[:NAME_LENGTH].split())
    verb, _, rest = typed.partition(" ")
    action = ACTIONS.get(verb.lower())
    actor = actor_of(request)
    options: list[dict[str, Any]] = []
    if action and rest:
        options = [
            _option(job, action)
            for job in jobs_found(actor, rest, MAX_JOBS)
            if actor.may_change(job) and job.status in action.statuses
        ]
    if typed:
        options += [_option(job) for job in jobs_found(actor, typed, MAX_JOBS)]
    return render_page(request, "schedules/parts/palette_jobs.html", {"options": options[:MAX_JOBS]})


def _option(job: Job, action: Action | None = None) -> dict[str, Any]:
    before, _, after = (action.words if action else "{}").partition("{}")
    name = action.page if action else "job"
    return {
        "address": reverse(f"schedules:{name}", args=[job.public_id]),
        "is_sent": action is not None and action.is_sent,
        "before": before,
        "name": job.name,
        "after": after,
        "state": "" if job.status == Job.Status.PENDING else job.get_status_display(),
    }
