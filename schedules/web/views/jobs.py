"""The list of jobs, and the actions on several jobs, with a link to undo each."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules import clock, services
from schedules.models import Job
from schedules.models.standings import ATTENTION, BROKEN, STANDINGS
from schedules.result import Err, Ok, Result, sentence
from schedules.services import Actor
from schedules.services.job_overview import OverviewQuery, alarm_of, matching_ids, read_overview
from schedules.services.job_row_details import add_failing_since
from schedules.services.jobs.bulk import change_each, tag_each
from schedules.services.jobs.pause_all import pause_reason
from schedules.tasks import registry
from schedules.web.forms.jobs import new_key
from schedules.web.messages import message_of
from schedules.web.views.forecast import Ahead
from schedules.web.views.job import read_until
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import actor_of, back, owners_for, page_of
from schedules.web.views.proposals import plans_for
from schedules.when.phrases import PhraseError

# The most jobs that one action can change.
MAX_JOBS = 1_000
FILTERS = ("q", "status", "task", "tag", "made_by", "owner")
CHIPS = {"task": "Type", "tag": "Tag", "made_by": "Created by", "owner": "Owner"}
# The order after the first click on a column's heading; a second click reverses it.
SORTS = {"name": "name", "next": "next", "last": "-last"}
# The participle of each action, for its messages.
ACTIONS = {
    "pause": "paused",
    "resume": "resumed",
    "cancel": "stopped permanently",
    "delete": "moved to the trash",
    "pause_until": "paused",
    "skip": "set to skip the next run",
    "run": "started",
    "tag": "tagged",
    "untag": "untagged",
}
# The verb of the events to undo after an action, where it differs; a started run cannot be undone.
UNDO_VERBS = {"pause_until": "pause", "skip": "edit", "tag": "edit", "untag": "edit", "run": ""}
# Why an action does not change a job with this status.
REASONS = {
    Job.Status.COMPLETED: "has already finished",
    Job.Status.FAILED: "has already failed",
    Job.Status.CANCELLED: "was stopped permanently",
    Job.Status.PENDING: "is active already",
    Job.Status.RUNNING: "is in its last run",
}
# The most jobs above the list that need attention.
MAX_ATTENTION = 5


def attention_of(rows: Sequence[Any]) -> list[Any]:
    """Return the broken jobs among the rows of the first page, which lists them first, and since when they fail."""
    broken = [job for job in rows if job.standing in BROKEN][:MAX_ATTENTION]
    add_failing_since(broken)
    return broken


class JobsPage(LivePageMixin, TemplateView):
    """The list of jobs, the most urgent first, below a chart of the next 24 hours."""

    template_name = "schedules/jobs.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        filters = filters_of(self.request.GET)
        query = query_of(filters)
        overview = read_overview(self.actor, query, self.page.now, self.page.profile, self.request.GET)
        rows, counts, total = overview.listed.rows, overview.counts, overview.total
        for job in rows:
            job.can_change = self.actor.may_change(job)
        if not query.is_narrowed:
            # The title of the page shows the same counts: save its query.
            self.page.alarm = alarm_of(counts)
        is_filtered = query.is_narrowed or bool(filters["status"])
        broken = None if counts["failed"] is None else sum(counts[name] or 0 for name in BROKEN)
        matches = {**counts, ATTENTION: broken}.get(filters["status"]) if filters["status"] else total
        plans = [] if is_filtered else plans_for(self.page)
        has_all = len(rows) == total and not is_filtered
        return super().get_context_data(
            filters=filters,
            sorts={column: _toggled(first, filters["sort"]) for column, first in SORTS.items()},
            counts=counts,
            chips={name: count for name, count in counts.items() if name not in BROKEN},
            broken=broken,
            attention=[] if is_filtered or filters["sort"] else attention_of(rows),
            plans=plans,
            total=total,
            matches=matches,
            most_selected=MAX_JOBS,
            listed=overview.listed,
            most_counted=overview.max_counted,
            cut_at=overview.cut_at,
            is_filtered=is_filtered,
            chosen_filters=_chosen_filters(filters),
            owners=owners_for(self.actor),
            quick_key=new_key(),
            is_unused=has_all and all(_is_housekeeping(job) for job in rows),
            ahead=Ahead.of(overview.planned, self.page.now, self.page.zone),
            **kwargs,
        )


def filters_of(query: QueryDict) -> dict[str, str]:
    return {name: query.get(name, "").strip() for name in (*FILTERS, "sort")}


def query_of(filters: dict[str, str]) -> OverviewQuery:
    return OverviewQuery(
        text=filters["q"],
        tag=filters["tag"],
        task=filters["task"],
        made_by=filters["made_by"],
        owner=filters["owner"],
        standing=filters["status"] if filters["status"] in (*STANDINGS, ATTENTION) else "",
        sort=filters["sort"],
    )


def _chosen_filters(filters: dict[str, str]) -> list[dict[str, str]]:
    """List the filters to show as chips, each with the query string that removes it."""
    return [
        {
            "name": label,
            "value": filters[name],
            "without": f"?{urlencode({other: value for other, value in filters.items() if value and other != name})}",
        }
        for name, label in CHIPS.items()
        if filters[name]
    ]


def _toggled(sort: str, current: str) -> str:
    """Return the order that a click on a column's heading selects."""
    if sort != current:
        return sort
    return sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"


def _is_housekeeping(job: Job) -> bool:
    """Return whether a job is one of Cronty's own, which every installation has."""
    task = registry.get(job.task)
    return bool(task and task.system)


@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Apply one action to every selected job, offer to undo it, and say which jobs did not change."""
    actor, verb = actor_of(request), request.POST.get("verb", "")
    query = _selected_query(request)
    job_ids = _selected_ids(request, actor, query)
    if verb not in ACTIONS or not job_ids:
        messages.warning(request, "Select at least one job first.")
        return back(request, reverse("schedules:jobs"))
    done = ACTIONS[verb]
    try:
        results = _change_each(request, actor, verb, job_ids, query)
    except PhraseError as error:
        messages.warning(request, sentence(str(error)))
        return back(request, reverse("schedules:jobs"))
    if not results:
        messages.info(request, "Nothing to change: these jobs are tagged like that already.")
    changed = [
        result.value if isinstance(result.value, Job) else result.value.job
        for result in results.values()
        if isinstance(result, Ok)
    ]
    refused = {job_id: result for job_id, result in results.items() if isinstance(result, Err)}
    if changed:
        message = f"{changed[0].name} {done}." if len(changed) == 1 else f"{len(changed):,} jobs {done}."
        ids, undo = " ".join(job.public_id for job in changed), UNDO_VERBS.get(verb, verb)
        messages.success(request, message, extra_tags=f"undo-{undo} {ids}" if undo else "")
    if refused:
        messages.warning(request, _refusal(actor, refused, done))
    return back(request, reverse("schedules:jobs"))


def _change_each(
    request: HttpRequest, actor: Actor, verb: str, job_ids: Sequence[str], query: OverviewQuery | None
) -> Mapping[str, Result[Any]]:
    """Apply an action to jobs; raise PhraseError if the tag is missing or the end of a pause is invalid."""
    match verb:
        case "skip":
            return {job_id: services.skip(actor, job_id) for job_id in job_ids}
        case "run":
            return {job_id: services.run_now(actor, job_id) for job_id in job_ids}
        case "tag" | "untag":
            if not (tag := request.POST.get("tag", "").strip()):
                raise PhraseError("Enter a tag.")
            return tag_each(actor, job_ids, tag, remove=verb == "untag")
        case "pause" | "pause_until":
            typed = request.POST.get("until", "") if verb == "pause_until" else ""
            until = read_until(typed, page_of(request))
            reason = pause_reason("", is_everything=query is not None and query.selects_all_pending)
            return change_each(actor, "pause", job_ids, until=until, reason=reason)
    return change_each(actor, verb, job_ids)


def _selected_query(request: HttpRequest) -> OverviewQuery | None:
    """Return the query of the list if all jobs that match it are selected, else None."""
    if not request.POST.get("all"):
        return None
    listed = QueryDict(request.POST.get("next", "").partition("?")[2].partition("#")[0])
    return query_of(filters_of(listed))


def _selected_ids(request: HttpRequest, actor: Actor, query: OverviewQuery | None) -> Sequence[str]:
    """Return the ids of the selected jobs, or of all jobs that match the query of the list."""
    if query is None:
        return " ".join(request.POST.getlist("job")).split()[:MAX_JOBS]
    return matching_ids(actor, query, clock.now(), MAX_JOBS)


def _refusal(actor: Actor, refused: dict[str, Err], done: str) -> str:
    """Name the first job that an action did not change, say why, and count the others."""
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
        return f"{job.name} wasn't {done}. {message_of(problem)}{others}"
    return f"{job.name} {reason}, so it wasn't {done}.{others}"
