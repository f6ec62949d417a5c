"""The list of jobs: filter and page through jobs by the same rules on pages, in tools, terminal and admin."""

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q

from schedules import clock
from schedules.models import Job
from schedules.models.counting import COUNTED, SCANNED, CountUpTo, among_first, count_up_to, has_key
from schedules.models.executions import OUTCOME_LETTERS, ExecutionQuerySet
from schedules.models.job_texts import skeleton, tag_in_text
from schedules.models.jobs import JobQuerySet
from schedules.models.standings import Standing, is_failing, is_stopped_failing, standings_of
from schedules.services.paging import ListPage, read_page
from schedules.services.permissions import Actor
from schedules.services.runs.prompts import jobs_yet_to_start
from schedules.services.text_search import has_every_word

# Filters count a run lost in a worker crash as failed.
STATUSES_OF_OUTCOME = {
    "succeeded": ("succeeded",),
    "failed": ("failed", "lost"),
    "cancelled": ("cancelled",),
    "skipped": ("skipped",),
    "missed": ("missed",),
}


def mentioning(jobs: JobQuerySet, text: str) -> JobQuerySet:
    """Filter jobs whose visible text contains every word of a text."""
    return jobs.filter(has_every_word(text, "public_id", "last_error", normalized_column="search_text"))


def in_requested_state(jobs: JobQuerySet, status: str) -> JobQuerySet:
    """Filter jobs by the status that a person means: "failed" includes repeating jobs whose last run failed."""
    if status == Job.Status.FAILED:
        return jobs.filter(Q(status=status) | is_failing() | is_stopped_failing())
    return jobs.in_state(status)


def tagged(jobs: JobQuerySet, tag: str) -> JobQuerySet:
    """Filter jobs with exactly this tag, ignoring case; the tags of a notification count, too."""
    return jobs.filter(search_text__contains=tag_in_text(tag))


@dataclass(frozen=True, slots=True)
class MatchingRuns:
    """The runs of a job with the requested outcome: how many, and when the last of them was due."""

    count: int
    last: datetime


class Matching(NamedTuple):
    """The runs with the requested outcome, by job."""

    by_job: Mapping[int, MatchingRuns]
    is_cut: bool
    """Whether older runs were not scanned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Filters of the list of jobs; empty values do not filter."""

    text: str = ""
    tag: str = ""
    task: str = ""
    made_by: str = ""
    outcome: str = ""
    """The outcome of the last run, or of any run since a moment."""
    since: datetime | None = None
    """Without an outcome: only jobs that have run since then."""
    status: str = ""
    source: str = ""
    """The file or folder that describes the jobs."""
    in_trash: bool = False

    @property
    def is_filtered(self) -> bool:
        """Whether jobs must be scanned; an index finds them by status, by source and in the trash."""
        return bool(self.text or self.tag or self.task or self.made_by or self.outcome or self.since)

    @property
    def selects_all_pending(self) -> bool:
        """Whether no pending job is left out."""
        is_any_status = self.status in ("", Job.Status.PENDING)
        return is_any_status and not (self.is_filtered or self.source or self.in_trash)

    def scope(self, actor: Actor) -> JobQuerySet:
        """Return the actor's jobs from the source, or in the trash, which have indexes."""
        jobs = actor.trash() if self.in_trash else actor.jobs()
        return jobs.filter(source=self.source) if self.source else jobs

    def narrow(self, jobs: JobQuerySet) -> JobQuerySet:
        """Filter jobs by their own texts and columns, without their runs."""
        if self.text:
            jobs = mentioning(jobs, self.text)
        if self.tag:
            jobs = tagged(jobs, self.tag)
        if self.task:
            jobs = jobs.filter(task=self.task)
        if self.made_by:
            jobs = jobs.filter(made_by=self.made_by)
        return jobs

    def matching_runs(self, runs: ExecutionQuerySet) -> Matching:
        """Count the runs with the requested outcome since `since`; `runs` are all that the actor sees."""
        if not (self.outcome and self.since):
            return Matching({}, is_cut=False)
        # Successful runs have no index, but are easily found among all runs.
        limit = COUNTED if self.outcome == "succeeded" else SCANNED
        since = runs.filter(scheduled_for__gte=self.since).order_by("-scheduled_for", "-pk")
        due: defaultdict[int, list[datetime]] = defaultdict(list)
        is_cut = False
        for status in STATUSES_OF_OUTCOME[self.outcome]:
            newest = since.indexed_for(status).values_list("status", "job", "scheduled_for")[: limit + 1]
            is_cut = is_cut or len(newest) > limit
            for run_status, job_id, moment in newest[:limit]:
                if run_status == status and job_id is not None:
                    due[job_id].append(moment)
        by_job = {job_id: MatchingRuns(len(moments), max(moments)) for job_id, moments in due.items()}
        return Matching(by_job, is_cut)

    def applied_to(self, jobs: JobQuerySet, matching: Mapping[int, MatchingRuns]) -> JobQuerySet:
        """Filter the first COUNTED of these jobs, the next to run first; `matching` are their matching runs."""
        # By key, or the database scans all jobs in that order to find a few matches.
        return self._with_outcome(self.narrow(Job.objects.filter(among_first(jobs))), matching)

    def among(self, jobs: JobQuerySet, matching: Mapping[int, MatchingRuns]) -> JobQuerySet:
        """Filter all of these jobs; the caller limits how many are scanned."""
        return self._with_outcome(self.narrow(jobs), matching)

    def _with_outcome(self, jobs: JobQuerySet, matching: Mapping[int, MatchingRuns]) -> JobQuerySet:
        if self.since and not self.outcome:
            return jobs.filter(last_run_at__gte=self.since)
        if not self.outcome:
            return jobs
        ended_so = Q(pk__in=[])
        for letter in (OUTCOME_LETTERS.get(status) for status in STATUSES_OF_OUTCOME[self.outcome]):
            if letter:
                ended_so |= Q(recent__endswith=letter)
        if self.since:
            return jobs.filter(Q(has_key(matching)) | (ended_so & Q(last_run_at__gte=self.since)))
        return jobs.filter(ended_so)


@dataclass(frozen=True)
class JobPage:
    """A page of the list of jobs, the next to run first."""

    rows: list[Any]
    start: int
    total: int
    """How many jobs match, up to one more than COUNTED."""
    unclaimed: Collection[int]
    """For an agent: running jobs shown as pending, because no agent has claimed their last prompt."""
    matching: Mapping[int, MatchingRuns]
    """The runs with the requested outcome since the requested moment, by job."""
    are_jobs_cut: bool
    """Whether there are more jobs than the COUNTED ones that were scanned."""
    are_runs_cut: bool
    """Whether older runs were not scanned."""

    @property
    def next_start(self) -> int | None:
        """The start of the next page; None after the last one."""
        end = self.start + len(self.rows)
        return end if self.rows and end < self.total else None

    @functools.cached_property
    def standings(self) -> dict[int, Standing]:
        """The standings of this page's jobs, by key."""
        return standings_of(self.rows, clock.now())


def read_jobs(
    actor: Actor, query: JobQuery, columns: Callable[..., Any], *, size: int, start: int = 0
) -> JobPage:
    """Read a page of the list; `columns` adds the columns that the caller shows to a query."""
    jobs = query.scope(actor)
    parts, unclaimed = _parts(actor, query, jobs)
    matching, are_runs_cut = query.matching_runs(actor.executions())
    if query.is_filtered or query.status:
        # One more than the page needs, even if counting stops before.
        most = max(COUNTED, start + size) + 1
        keys: list[int] = []
        for part in parts:
            matches = query.applied_to(part, matching) if query.is_filtered else part
            keys += matches.values_list("pk", flat=True)[: most - len(keys)]
        # Read all keys at once: counting the total would take as long again.
        rows, total = _rows_with(keys[start : start + size], query, columns), len(keys)
    else:
        # The list of all jobs is requested most often, so its total comes with the rows, in one query.
        rows = list(columns(jobs, total=CountUpTo(jobs.order_by()))[start : start + size])
        total = rows[0].total if rows else count_up_to(jobs.order_by())
    if (
        not query.status
        and actor.is_agent
        and any(row.task == "prompt" and row.status == Job.Status.RUNNING for row in rows)
    ):
        unclaimed = jobs_yet_to_start(actor, clock.now())
    are_jobs_cut = query.is_filtered and count_up_to(parts[-1].order_by()) > COUNTED
    return JobPage(rows, start, total, unclaimed, matching, are_jobs_cut, are_runs_cut)


def read_newest(
    actor: Actor, query: JobQuery, columns: Callable[..., Any], position: Mapping[str, str], size: int
) -> ListPage:
    """Read a page of the list, newest first: in this order no page skips or repeats a job while jobs run."""
    jobs = query.scope(actor)
    rows = jobs.in_state(query.status) if query.status else jobs
    if query.is_filtered:
        rows = query.among(rows, query.matching_runs(actor.executions()).by_job)
    # Ordered by key, which is the order of creation.
    return read_page(columns(rows), position, size, among=None if rows is jobs else jobs)


def key_of(public_id: str) -> int | None:
    """Return the primary key of the job with this id, whoever owns it."""
    return Job.objects.called(public_id).values_list("pk", flat=True).first()


def newest_jobs(actor: Actor, *columns: str, limit: int) -> list[Any]:
    """Return these columns of the newest jobs."""
    return list(actor.jobs().order_by("-pk").values_list(*columns)[:limit])


def jobs_named_like(actor: Actor, beginning: str, *columns: str, limit: int) -> list[Any]:
    """Return these columns of the jobs whose names begin with a text or something that looks the same, by name."""
    jobs = actor.jobs().named_like(skeleton(beginning)).order_by("name")
    return list(jobs.values_list(*columns)[:limit])


def find_jobs(actor: Actor, text: str, limit: int) -> list[Job]:
    """Search jobs, with their owners: first names that begin with a text, then the newest jobs that mention it."""
    jobs = actor.jobs().select_related("owner")
    named: list[Job] = []
    # The owner is the first column of the index of names.
    if not actor.sees_all and (beginning := skeleton(text)):
        named = list(jobs.named_like(beginning).order_by()[:limit])
    order = ("-pk",) if actor.sees_all else ("-created_at", "-pk")
    newest = actor.jobs().order_by(*order).values("pk")[:SCANNED]
    others = mentioning(jobs.filter(pk__in=newest), text).exclude(pk__in=[job.pk for job in named])
    matches = named + list(others.order_by("-pk")[: limit - len(named)])
    return sorted(matches, key=lambda job: not job.name.casefold().startswith(text.casefold()))


def count_due(actor: Actor, moment: datetime) -> int:
    """Count the jobs due at a moment, up to one more than COUNTED."""
    return count_up_to(actor.jobs().due(moment))


def _parts(actor: Actor, query: JobQuery, jobs: JobQuerySet) -> tuple[list[JobQuerySet], list[int]]:
    """Return the jobs with the requested status, as queries to list one after the other, and the unclaimed ones."""
    if not query.status:
        return [jobs], []
    if query.in_trash:
        # Deleted jobs have no next run, which orders the other lists.
        return [in_requested_state(jobs, query.status)], []
    listed = jobs.listed(query.status)
    if query.status == Job.Status.FAILED:
        # Each query has an index in this order.
        failing = jobs.filter(is_failing()).order_by("next_run_at", "-pk")
        return [failing, jobs.filter(is_stopped_failing()).order_by("-pk"), listed], []
    if not actor.is_agent or query.status not in (Job.Status.PENDING, Job.Status.RUNNING):
        return [listed], []
    # For agents, a due prompt that nobody has claimed is pending.
    unclaimed = jobs_yet_to_start(actor, clock.now())
    if unclaimed and query.status == Job.Status.RUNNING:
        return [listed.exclude(pk__in=unclaimed)], unclaimed
    return [jobs.filter(pk__in=unclaimed), listed] if unclaimed else [listed], unclaimed


def _rows_with(keys: Sequence[int], query: JobQuery, columns: Callable[..., Any]) -> list[Any]:
    """Read the jobs with these keys, in this order, except those deleted or restored in the meantime."""
    jobs = Job.objects.trashed() if query.in_trash else Job.objects.kept()
    rows = {row.pk: row for row in columns(jobs.filter(pk__in=keys))}
    return [rows[pk] for pk in keys if pk in rows]
