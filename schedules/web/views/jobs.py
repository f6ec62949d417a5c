"""The list of jobs: its filters, order and parts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.http import QueryDict
from django.utils.http import urlencode
from django.views.generic import TemplateView

from schedules.models import Job
from schedules.models.counting import count_up_to
from schedules.models.executions import ExecutionQuerySet
from schedules.models.jobs import JobQuerySet
from schedules.models.keysets import Segment
from schedules.models.name_skeletons import skeleton
from schedules.services.filters import mentioning
from schedules.tasks import registry
from schedules.web.views import states
from schedules.web.views.forecast import Ahead
from schedules.web.views.live import LivePageMixin
from schedules.web.views.owners import owner_called, owners_for
from schedules.web.views.paging import read_page

# With more jobs than this, the list has only the orders that indexes have.
LARGE = 5_000
# The most jobs that one action can change.
MOST_JOBS = 1_000
MOST_NAMED = 500
FILTERS = ("q", "status", "task", "tag", "made_by", "owner")
CHIPS = {"task": "Type", "tag": "Tag", "made_by": "Created by", "owner": "Owner"}
# The order that a column's heading asks for first; a second click turns it.
SORTS = {"name": "name", "next": "next", "last": "-last"}


class JobsPage(LivePageMixin, TemplateView):
    """The list of jobs, the most urgent first, below a chart of the next 24 hours."""

    template_name = "schedules/jobs.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now, asked = self.page.now, asked_of(self.request.GET)
        jobs, runs = self._of_owner(asked)
        total = count_up_to(jobs.order_by())
        is_large = total > LARGE
        most_counted = states.MOST_COUNTED if is_large else LARGE
        is_narrowed = any(asked[name] for name in (*CHIPS, "q"))
        counts: Mapping[str, int | None]
        drawn: JobQuerySet | None = jobs
        known: Mapping[int, str] = {}
        if is_large:
            segments = self._large_list(jobs, runs, asked)
            counts = {} if is_narrowed else states.count_by_index(jobs, runs, now, self.page.profile)
            if is_narrowed or asked["status"]:
                # No index finds the next runs of such a list.
                drawn = None
        else:
            found = matching(jobs, asked)
            ranked = states.with_rank(found, now)
            known = states.read_standings(ranked)
            exact = counts = states.count_by_standing(known)
            total = sum(exact.values())
            segments = self._small_list(found, exact, asked)
            if is_narrowed or asked["status"]:
                drawn = in_standing(ranked, asked["status"])
        listed = read_page([self._shown(segment) for segment in segments], self.request)
        states.name_standings(listed.rows, known, self.actor.user.pk, now)
        for job in listed.rows:
            job.can_change = self.actor.may_change(job)
        if not is_narrowed:
            # The same for the title, without another query.
            self.page.alarm = states.alarm_of(counts)
        is_filtered = is_narrowed or bool(asked["status"])
        matches = counts.get(asked["status"]) if asked["status"] else None if is_large else total
        has_all = len(listed.rows) == total and not is_filtered
        return super().get_context_data(
            asked=asked,
            sorts={column: _turned(first, asked["sort"]) for column, first in SORTS.items()},
            counts=counts,
            total=None if is_large and is_narrowed else total,
            matches=matches,
            listed_of=None if is_large and is_filtered else matches,
            most_selected=MOST_JOBS,
            listed=listed,
            is_large=is_large,
            most_sorted=LARGE,
            most_counted=most_counted,
            is_filtered=is_filtered,
            chosen_filters=_chosen_filters(asked),
            owners=owners_for(self.actor),
            is_unused=has_all and all(_is_housekeeping(job) for job in listed.rows),
            ahead=None if drawn is None else Ahead.of(drawn, now, self.page.zone),
            **kwargs,
        )

    def _of_owner(self, asked: dict[str, str]) -> tuple[JobQuerySet, ExecutionQuerySet]:
        """Return the jobs and runs of the list; staff may ask for those of one person."""
        jobs, runs = self.actor.jobs(), self.actor.executions()
        if not asked["owner"]:
            return jobs, runs
        user = owner_called(asked["owner"])
        return jobs.filter(owner=user), runs.filter(owner=user)

    def _shown(self, segment: Segment) -> Segment:
        """Return a segment whose rows have what the list shows; only staff see whose job it is."""
        return (
            replace(segment, rows=segment.rows.prefetch_related("owner")) if self.actor.sees_all else segment
        )

    def _small_list(
        self, jobs: JobQuerySet, counts: Mapping[str, int], asked: dict[str, str]
    ) -> list[Segment]:
        """Return the list of a person with few jobs, which may be filtered and sorted in any way."""
        names = [asked["status"]] if asked["status"] in states.STANDINGS else list(states.STANDINGS)
        segments = states.sorted_by(jobs, asked["sort"])
        if segments is None and asked["sort"] in ("next", "-next"):
            segments = states.next_first(jobs, is_reversed=asked["sort"] == "-next")
        if segments is None:
            # Links name the parts by number, so there are as many on every page; only those with jobs are read.
            parts: list[Segment] = []
            for name in names:
                found = states.segments_of(jobs, self.page.now, name) if counts[name] else []
                absent = states.PARTS.get(name, 1) - len(found)
                parts += [*(replace(part, walked=None) for part in found), *[Segment(jobs.none())] * absent]
            return parts
        if len(names) > 1:
            return segments
        now, name = self.page.now, names[0]
        return [
            replace(each, rows=states.standing_as(states.with_rank(each.rows, now), name))
            for each in segments
        ]

    def _large_list(self, jobs: JobQuerySet, runs: ExecutionQuerySet, asked: dict[str, str]) -> list[Segment]:
        """Return the list of a person with many jobs, in the orders that indexes have."""
        if asked["status"] in states.STANDINGS:
            segments = states.segments_of(jobs, self.page.now, asked["status"], runs)
        elif asked["sort"] in ("next", "-next"):
            segments = states.next_first(jobs, is_reversed=asked["sort"] == "-next")
        else:
            segments = states.worst_first(jobs, self.page.now)
        if not any(asked[name] for name in (*CHIPS, "q")):
            return segments
        narrowed = [
            replace(
                each,
                rows=matching(each.rows, asked),
                walked=each.rows if each.walked is None else each.walked,
            )
            for each in segments
        ]
        if not asked["q"]:
            return narrowed
        # Indexes find an id, and names that begin with the text; the rest is looked through.
        found = [*jobs.called(asked["q"])[:1], *self._named(jobs, asked["q"])]
        keys = [job.pk for job in found]
        first = Segment(matching(jobs.filter(pk__in=keys), asked), ("name", "-pk"))
        return [first, *(replace(each, rows=each.rows.exclude(pk__in=keys)) for each in narrowed)]

    def _named(self, jobs: JobQuerySet, text: str) -> list[Job]:
        # The index begins with the owner.
        if self.actor.sees_all or not (beginning := skeleton(text)):
            return []
        return list(jobs.named_like(beginning).only("pk").order_by()[:MOST_NAMED])


def asked_of(query: QueryDict) -> dict[str, str]:
    return {name: query.get(name, "").strip() for name in (*FILTERS, "sort")}


def in_standing(ranked: JobQuerySet, name: str) -> JobQuerySet:
    return states.standing_as(ranked, name) if name in states.STANDINGS else ranked


def _chosen_filters(asked: dict[str, str]) -> list[dict[str, str]]:
    """List the filters to show as chips, each with the query string that removes it."""
    return [
        {
            "name": label,
            "value": asked[name],
            "without": f"?{urlencode({other: kept for other, kept in asked.items() if kept and other != name})}",
        }
        for name, label in CHIPS.items()
        if asked[name]
    ]


def _turned(sort: str, current: str) -> str:
    if sort != current:
        return sort
    return sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"


def _is_housekeeping(job: Job) -> bool:
    """Return whether a job is one of Cronty's own, which exist in every installation."""
    task = registry.get(job.task)
    return bool(task and task.system)


def matching(jobs: JobQuerySet, asked: dict[str, str]) -> JobQuerySet:
    """Apply the filters of the query string, except the status and the owner."""
    if asked["q"]:
        jobs = mentioning(jobs, asked["q"])
    if asked["tag"]:
        jobs = jobs.tagged(asked["tag"])
    if asked["task"]:
        jobs = jobs.filter(task=asked["task"])
    if asked["made_by"]:
        jobs = jobs.filter(made_by=asked["made_by"])
    return jobs
