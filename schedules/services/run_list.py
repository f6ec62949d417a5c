"""Runs in the ledger: filter and page through them, read the last ones of a job, and find one by its key."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from schedules.models import Execution, Job
from schedules.models.counting import COUNTED, SCANNED, among_first, count_up_to
from schedules.models.executions import ExecutionQuerySet
from schedules.models.job_queries import NOTICE_PREFIX
from schedules.services.job_list import STATUSES_OF_OUTCOME, key_of
from schedules.services.paging import PAGE_SIZE, Key, ListPage, beyond, read_page
from schedules.services.people.profiles import user_called
from schedules.services.permissions import Actor
from schedules.services.text_search import has_every_word

NEWEST_FIRST = ("-scheduled_for", "-pk")
# How many of the newest runs are counted by status.
COUNTED_RUNS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Filters of the list of runs; empty values do not filter."""

    owner: str = ""
    job: Job | str = ""
    """A job or an id."""
    status: str = ""
    outcome: str = ""
    """How the run ended, by the outcomes that tools name."""
    cause: str = ""
    task: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def scope(self, actor: Actor) -> ExecutionQuerySet:
        """Filter by owner, job and time, which have indexes."""
        runs = actor.executions()
        if self.owner:
            runs = runs.filter(owner=user_called(self.owner))
        if self.job:
            # By key, because the index of a job's runs is ordered by it.
            runs = runs.filter(job=(self.job.pk if isinstance(self.job, Job) else key_of(self.job)) or 0)
        if self.since:
            runs = runs.filter(scheduled_for__gte=self.since)
        return runs.filter(scheduled_for__lt=self.until) if self.until else runs

    def matching(self, actor: Actor) -> tuple[ExecutionQuerySet, ExecutionQuerySet | None]:
        """Return the matching runs, and those to scan for them if no index finds them."""
        scope, runs = self._with_status(self.scope(actor))
        narrowed = self._narrow(runs)
        return narrowed, None if narrowed is scope else scope

    def first(self, actor: Actor) -> tuple[ExecutionQuerySet, bool]:
        """Return the matching runs among the newest in scope, and whether older ones were left out."""
        scope = self.scope(actor).order_by(*NEWEST_FIRST)
        _, runs = self._with_status(Execution.objects.filter(among_first(scope)))
        return self._narrow(runs).order_by(*NEWEST_FIRST), count_up_to(scope) > COUNTED

    def _narrow(self, runs: ExecutionQuerySet) -> ExecutionQuerySet:
        """Filter runs by the conditions that have no index."""
        if self.outcome:
            runs = runs.filter(status__in=STATUSES_OF_OUTCOME[self.outcome])
        if self.cause in Execution.Cause.values:
            runs = runs.filter(cause=self.cause)
        if self.task:
            runs = runs.filter(task=self.task)
        return mentioning(runs, self.text) if self.text else runs

    def _with_status(self, scope: ExecutionQuerySet) -> tuple[ExecutionQuerySet, ExecutionQuerySet]:
        """Return the runs to scan, and those with the status; both are the same if an index finds them."""
        if self.status in Execution.LIVE:
            # They may be very old, but are never many. By key, or the database scans all runs in the list's order.
            live = scope.live().filter(status=self.status).order_by().values_list("pk", flat=True)
            runs = scope.filter(pk__in=list(live[:SCANNED]))
            return runs, runs
        if self.status not in Execution.FINAL:
            return scope, scope
        # The runs of one job have an index of their own.
        indexed = scope if self.job else scope.indexed_for(self.status)
        return indexed, indexed if indexed is not scope else scope.filter(status=self.status)


def read_runs(
    actor: Actor,
    query: RunQuery,
    position: Mapping[str, str],
    size: int = PAGE_SIZE,
    *,
    with_results: bool = False,
) -> ListPage:
    """Read the page of the list at a position."""
    runs, among = query.matching(actor)
    rows = _without_large_columns(runs.select_related("job"), with_results)
    return read_page(rows, position, size, order=NEWEST_FIRST, among=among)


def count_by_status(actor: Actor, query: RunQuery) -> dict[str, int]:
    """Count the newest runs by status: those that occur, and the one of the query."""
    newest = query.scope(actor).order_by(*NEWEST_FIRST).values_list("status", flat=True)[:COUNTED_RUNS]
    counts = Counter(newest)
    return {name: counts[name] for name in Execution.Status.values if counts[name] or name == query.status}


# What a line shows of its newest run.
LINE_COLUMNS = ("job__public_id", "job_name", "task", "status", "error", "reason")


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run, or the runs of one job that ended alike."""

    run: Execution
    """The newest of them."""
    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The matching runs, newest first, and how many there are of each status."""

    lines: Sequence[RunLine]
    counts: Mapping[str, int]
    alerts: Mapping[str, int]
    """Counts of the runs of Cronty's own alerts, which `lines` and `counts` leave out."""
    is_cut: bool
    """Whether older runs were not scanned."""
    are_lines_cut: bool


def summarize_runs(actor: Actor, query: RunQuery, limit: int) -> RunSummary:
    """List and count the matching runs; unless one job is requested, group those of a job that ended alike."""
    runs, is_cut = query.first(actor)
    columns = ("pk", "job", "job_name", "status", "scheduled_for", "last_slot", "slots", "job__public_id")
    counts: Counter[str] = Counter()
    alerts: Counter[str] = Counter()
    groups: dict[Any, list[Any]] = {}
    for row in runs.values_list(*columns, named=True):
        is_alert = (row.job__public_id or "").startswith(f"{NOTICE_PREFIX}_")
        if is_alert and not query.job:
            alerts[row.status] += row.slots
            continue
        counts[row.status] += row.slots
        key = row.pk if query.job else (row.job or row.job_name, row.status)
        groups.setdefault(key, []).append(row)
    shown = list(groups.values())[:limit]
    newest = Execution.objects.filter(pk__in=[rows[0].pk for rows in shown]).select_related("job")
    by_key = {run.pk: run for run in newest.only(*LINE_COLUMNS)}
    lines = [
        RunLine(
            by_key[rows[0].pk],
            rows[-1].scheduled_for,
            max(row.last_slot or row.scheduled_for for row in rows),
            sum(row.slots for row in rows),
        )
        for rows in shown
        if rows[0].pk in by_key
    ]
    return RunSummary(lines, counts, alerts, is_cut, len(groups) > limit)


def newest_runs(job: Job, limit: int, *, with_results: bool = False) -> list[Execution]:
    """Return the last runs of a job, newest first."""
    return list(_without_large_columns(_runs_of(job), with_results)[:limit])


def newest_rows(job: Job, columns: Sequence[str], limit: int) -> list[Any]:
    """Return these columns of the last runs of a job, newest first."""
    return list(_runs_of(job).values_list(*columns, named=True)[:limit])


def last_run(job: Job) -> Execution | None:
    """Return the newest run of a job, whether it has ended or not."""
    return _runs_of(job).first()


def _without_large_columns(runs: QuerySet[Execution], with_results: bool) -> QuerySet[Execution]:
    return runs.defer("traceback") if with_results else runs.defer("traceback", "result")


def _runs_of(job: Job) -> ExecutionQuerySet:
    return Execution.objects.filter(job=job).order_by(*NEWEST_FIRST)


def runs_around(run: Execution, columns: Sequence[str], limit: int) -> tuple[list[Any], int | None]:
    """Return these columns of the runs of the same job before this one, newest first, and the key of the next run."""
    runs = Execution.objects.filter(job=run.job_id, owner=run.owner_id)
    earlier = runs.filter(scheduled_for__lt=run.scheduled_for).order_by(*NEWEST_FIRST)
    later = runs.filter(scheduled_for__gt=run.scheduled_for).order_by("scheduled_for", "pk")
    following = next(iter(later.values_list("pk", flat=True)[:1]), None)
    return list(earlier.values_list(*columns, named=True)[:limit]), following


def find_run(actor: Actor, run_id: int) -> Execution | None:
    """Return a run that the actor may see, with its job and cluster."""
    # Larger numbers do not fit into the column and would cause an error.
    if run_id >= 2**63:
        return None
    return actor.executions().select_related("job", "cluster").filter(pk=run_id).first()


def read_again(run_id: int) -> Execution:
    """Reread a run that the caller follows; raise Execution.DoesNotExist if it was deleted."""
    return Execution.objects.defer("traceback").get(pk=run_id)


def status_of(run_id: int) -> str:
    """Return the current status of a run that the caller follows; raise Execution.DoesNotExist if it was deleted."""
    return Execution.objects.values_list("status", flat=True).get(pk=run_id)


def last_written(actor: Actor, query: RunQuery, limit: int) -> list[Execution]:
    """Return the runs that were last written to the ledger, whenever they were due, the newest first."""
    runs = query.scope(actor).select_related("job").defer("traceback").order_by("-pk")
    return list((runs.filter(status=query.status) if query.status else runs)[:limit])


def read_chunks(
    runs: ExecutionQuerySet, columns: Sequence[Any], size: int, limit: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Read the key, due time and these columns of the newest runs in chunks, each with a query of its own.

    A cursor would keep a transaction open for as long as the client's download takes.
    """
    ordered = runs.order_by(*NEWEST_FIRST).values_list("pk", "scheduled_for", *columns)
    rest = ordered
    for _ in range(limit // size):
        rows = list(rest[:size])
        if rows:
            yield rows
        if len(rows) < size:
            return
        last, moment = rows[-1][:2]
        rest = ordered.filter(beyond(NEWEST_FIRST, Key((moment, last))))


def mentioning(runs: ExecutionQuerySet, text: str) -> ExecutionQuerySet:
    """Filter runs whose job's visible text, error or reason contains every word of a text."""
    columns = ("job_name", "error", "reason")
    return runs.filter(has_every_word(text, *columns, normalized_column="job__search_text"))
