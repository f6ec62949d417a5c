"""Actions on several jobs of the list, each of which can be undone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST

from schedules import clock, services
from schedules.models import Job
from schedules.result import Err, Ok, Result
from schedules.services import Actor
from schedules.services.jobs.bulk import change_each
from schedules.web.views import states
from schedules.web.views.jobs import MOST_JOBS, asked_of, in_standing, matching
from schedules.web.views.owners import owner_called
from schedules.web.views.page import actor_of, back, problem_text

# What each action did, and the action that undoes it.
ACTIONS = {
    "pause": ("paused", "resume"),
    "resume": ("resumed", "pause_again"),
    "cancel": ("stopped permanently", "start_again"),
    "delete": ("moved to the trash", "restore"),
    "pause_again": ("paused", ""),
    "start_again": ("restored", ""),
    "restore": ("restored", ""),
}
# Those that only undo others are done one by one.
UNDO: dict[str, Callable[..., Result[Job]]] = {
    "pause_again": services.pause_again,
    "start_again": partial(services.restore, is_deleted=False),
    "restore": partial(services.restore, is_deleted=True),
}
# Why an action leaves a job with this status as it was.
REASONS = {
    Job.Status.COMPLETED: "has already finished",
    Job.Status.FAILED: "has already failed",
    Job.Status.CANCELLED: "was stopped permanently",
    Job.Status.PENDING: "is active already",
    Job.Status.RUNNING: "is in its last run",
}


@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Apply one action to every selected job, offer to undo it, and say which jobs were left as they were."""
    actor, verb = actor_of(request), request.POST.get("verb", "")
    chosen = _chosen(request, actor)
    if verb not in ACTIONS or not chosen:
        messages.warning(request, "Select at least one job first.")
        return back(request, reverse("schedules:jobs"))
    done, undo = ACTIONS[verb]
    results = (
        {job_id: UNDO[verb](actor, job_id) for job_id in chosen}
        if verb in UNDO
        else change_each(actor, verb, chosen)
    )
    changed = [result.value for result in results.values() if isinstance(result, Ok)]
    refused = {job_id: result for job_id, result in results.items() if isinstance(result, Err)}
    if changed:
        words = f"{changed[0].name} {done}." if len(changed) == 1 else f"{len(changed):,} jobs {done}."
        ids = " ".join(job.public_id for job in changed)
        messages.success(request, words, extra_tags=f"undo-{undo} {ids}" if undo else "")
    if refused:
        messages.warning(request, _refusal(actor, refused, done))
    return back(request, reverse("schedules:jobs"))


def _chosen(request: HttpRequest, actor: Actor) -> Sequence[str]:
    """Return the ids of the ticked jobs, or of all jobs that match the filters of the list."""
    if not request.POST.get("all"):
        return " ".join(request.POST.getlist("job")).split()[:MOST_JOBS]
    asked = asked_of(QueryDict(request.POST.get("next", "").partition("?")[2].partition("#")[0]))
    jobs = actor.jobs()
    if asked["owner"]:
        jobs = jobs.filter(owner=owner_called(asked["owner"]))
    found = in_standing(states.with_rank(matching(jobs, asked), clock.now()), asked["status"])
    return list(found.order_by(*states.BY_NEXT_RUN).values_list("public_id", flat=True)[:MOST_JOBS])


def _refusal(actor: Actor, refused: dict[str, Err], done: str) -> str:
    """Name the first job that an action left as it was, say why, and count the others."""
    job_id, problem = next(iter(refused.items()))
    job: Any = actor.jobs().find(job_id)
    more = len(refused) - 1
    others = f" {more:,} more job{' was' if more == 1 else 's were'} left unchanged." if more else ""
    if job is None and (trashed := actor.trash().find(job_id)):
        return f"{trashed.name} is in the trash, so it wasn't {done}.{others}"
    if job is None:
        return f"A job wasn't {done}, because you can't change it.{others}"
    reason = REASONS.get(job.status)
    if reason is None or not actor.may_change(job):
        return f"{job.name} wasn't {done}. {problem_text(problem)}{others}"
    return f"{job.name} {reason}, so it wasn't {done}.{others}"
