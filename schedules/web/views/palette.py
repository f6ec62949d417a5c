"""The command palette: search for jobs and actions on them by a few letters."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from schedules.limits import NAME_LENGTH
from schedules.models import Job
from schedules.services.job_list import find_jobs
from schedules.web.views.page import actor_of, render_page

MAX_JOBS = 8
ACTIVE = (Job.Status.PENDING, Job.Status.PAUSED)


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
