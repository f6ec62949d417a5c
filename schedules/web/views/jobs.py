"""The list of jobs, and the actions on several of them."""

import json
from typing import Any

from django.contrib import messages
from django.db import connection
from django.db.models import BooleanField, Func, Q, TextField, Value
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import services
from schedules.models import Job
from schedules.models.jobs import JobQuerySet
from schedules.result import Err, Ok
from schedules.tasks import registry
from schedules.web.views import states
from schedules.web.views.forecast import Ahead
from schedules.web.views.page import PageMixin, actor_of, back, sliced

FILTERS = ("q", "status", "task", "tag", "made_by")
CHIPS = ("task", "tag", "made_by")
BULK = {
    "pause": (services.pause, "Paused"),
    "resume": (services.resume, "Resumed"),
    "cancel": (services.cancel, "Cancelled"),
    "delete": (services.delete, "Moved to the trash"),
}


class JobsPage(PageMixin, TemplateView):
    """The list of jobs, the most urgent first, below a chart of the next 24 hours."""

    template_name = "schedules/jobs.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now = self.page.now
        asked = {name: self.request.GET.get(name, "").strip() for name in (*FILTERS, "sort")}
        ranked = states.with_rank(matching(self.actor.jobs(), asked), now)
        counts = states.count_by_standing(ranked)
        # Only staff see whose job it is.
        shown = ranked.select_related("owner") if self.actor.sees_all else ranked
        listed = sliced(self._ordered(shown, counts, asked), self.request)
        for job in states.named(listed.rows):
            job.can_change = self.actor.may_change(job)  # type: ignore[attr-defined]
        total = sum(counts.values())
        is_filtered = any(asked[name] for name in FILTERS)
        has_all = len(listed.rows) == total and not is_filtered
        return super().get_context_data(
            asked=asked,
            counts=counts,
            total=total,
            listed=listed,
            is_filtered=is_filtered,
            chosen_filters=_chosen_filters(asked),
            is_unused=has_all and all(_is_housekeeping(job) for job in listed.rows),
            failing=counts["failing"] + counts["late"],
            is_moving=bool(counts["running"] or counts["late"]),
            ahead=Ahead.of(self.actor.jobs(), now, self.page.zone),
            **kwargs,
        )

    def _ordered(self, ranked: JobQuerySet, counts: dict[str, int], asked: dict[str, str]) -> Any:
        status, sort = asked["status"], asked["sort"]
        if status in states.STANDINGS:
            ranked, sort = states.standing_as(ranked, status), sort or "next"
        if sort in states.SORTS and sort:
            return ranked.order_by(*states.SORTS[sort])
        return states.WorstFirst(ranked, counts)


def _chosen_filters(asked: dict[str, str]) -> list[dict[str, str]]:
    """List the filters to show as chips, each with the query string that removes it."""
    return [
        {
            "name": name.replace("_", " "),
            "value": asked[name],
            "without": f"?{urlencode({other: kept for other, kept in asked.items() if kept and other != name})}",
        }
        for name in CHIPS
        if asked[name]
    ]


def _is_housekeeping(job: Job) -> bool:
    """Return whether a job is one of Cronty's own, which exist in every installation."""
    task = registry.get(job.task)
    return bool(task and task.system)


def matching(jobs: JobQuerySet, asked: dict[str, str]) -> JobQuerySet:
    """Apply the filters of the query string, except the status."""
    if asked["q"]:
        fields = ("name", "label", "cron", "task", "made_by", "public_id")
        wanted = Q(tag_text__icontains=json_text(asked["q"])[1:-1])
        for name in fields:
            wanted |= Q(**{f"{name}__icontains": asked["q"]})
        jobs = jobs.annotate(tag_text=Cast("tags", TextField())).filter(wanted)
    if asked["tag"]:
        jobs = tagged(jobs, asked["tag"])
    if asked["task"]:
        jobs = jobs.filter(task=asked["task"])
    if asked["made_by"]:
        jobs = jobs.filter(made_by=asked["made_by"])
    return jobs


class _Holds(Func):
    """Whether a JSON list contains a text, on SQLite."""

    template = "EXISTS (SELECT 1 FROM JSON_EACH(%(expressions)s)"
    arg_joiner = ") WHERE value = "
    output_field = BooleanField()


def tagged(jobs: JobQuerySet, tag: str) -> JobQuerySet:
    if connection.features.supports_json_field_contains:
        return jobs.filter(tags__contains=[tag])
    return jobs.filter(_Holds("tags", Value(tag)))


def json_text(text: str) -> str:
    """Format a text as it appears inside a stored JSON list."""
    return json.dumps(text, ensure_ascii=not connection.features.supports_json_field_contains)


@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Apply one action to every ticked job, and count the refusals."""
    verb = request.POST.get("verb", "")
    chosen = request.POST.getlist("job")[:500]
    if verb not in BULK or not chosen:
        messages.warning(request, "Tick the jobs first, then choose what to do with them.")
        return back(request, reverse("schedules:jobs"))
    act, word = BULK[verb]
    results = [act(actor_of(request), job_id) for job_id in chosen]
    done = sum(isinstance(result, Ok) for result in results)
    refused = [result.message for result in results if isinstance(result, Err)]
    if done:
        undo = f"undo {' '.join(chosen)}" if verb == "delete" else ""
        messages.success(request, f"{word}: {done} job{'' if done == 1 else 's'}.", extra_tags=undo)
    if refused:
        messages.warning(request, f"{len(refused)} left as they were. {refused[0]}")
    return back(request, reverse("schedules:jobs"))
