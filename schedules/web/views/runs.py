"""The list of runs, and its export as CSV, in chunks that keep memory use and transactions small."""

import csv
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models.functions import Left
from django.http import (
    HttpRequest,
    HttpResponseBadRequest,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe
from django.views.generic import TemplateView

from schedules.limits import SHORTENED
from schedules.models import Execution
from schedules.models.executions import ExecutionQuerySet
from schedules.result import sentence
from schedules.services.run_list import COUNTED_RUNS, RunQuery, count_by_status, read_chunks, read_runs
from schedules.web.views.live import LivePageMixin
from schedules.web.views.page import Page, owners_for, page_of
from schedules.when.phrases import PhraseError, parse_moment

FILTERS = ("status", "job", "cause", "q", "since", "until", "owner")
COLUMNS = (
    "id",
    "job_id",
    "job",
    "task",
    "scheduled_for",
    "cause",
    "status",
    "reason",
    "attempt",
    "started_at",
    "finished_at",
    "seconds",
    "lateness_seconds",
    "error",
)
# More rows would exceed the time limit of a request; users reach older ones with the filters of the page.
MAX_ROWS = 10_000
CHUNK_ROWS = 500
# Longer errors are cut; the page of a run shows them in full.
ERROR_LENGTH = 200
# Spreadsheets evaluate a cell that begins with one of these, even after white space or invisible characters.
FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_FREE_TEXT_COLUMNS = tuple(COLUMNS.index(name) for name in ("job", "task", "reason", "error"))
_LEADING_BREAKS = ("\t", "\r", "\n")


class RunsPage(LivePageMixin, TemplateView):
    """All runs, newest first."""

    template_name = "schedules/runs.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        filters = filters_of(self.request)
        query, problems = query_of(self.page, filters)
        return super().get_context_data(
            filters=filters,
            problems=problems,
            listed=read_runs(self.actor, query, self.request.GET),
            causes=Execution.Cause.values,
            is_filtered=any(filters.values()),
            owners=owners_for(self.actor),
            counts=count_by_status(self.actor, query),
            # Searches and causes have no index, so the chips show no counts then.
            is_counted=not (filters["q"] or filters["cause"]),
            counted_runs=COUNTED_RUNS,
            job_name=self._job_name(filters["job"]),
            query=self.request.GET.urlencode(),
            most_exported=MAX_ROWS,
            **kwargs,
        )

    def _job_name(self, job_id: str) -> str:
        job = self.actor.jobs().find(job_id) if job_id else None
        return job.name if job else job_id


def filters_of(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip() for name in FILTERS}


def query_of(page: Page, filters: dict[str, str]) -> tuple[RunQuery, dict[str, str]]:
    """Return the query, and an error for each moment that cannot be parsed."""
    moments: dict[str, datetime | None] = {"since": None, "until": None}
    problems = {}
    for name in moments:
        try:
            if filters[name]:
                moments[name] = parse_moment(filters[name], now=page.now, timezone=page.zone, past=True)
        except PhraseError as error:
            problems[name] = sentence(str(error))
    query = RunQuery(
        owner=filters["owner"],
        job=filters["job"],
        status=filters["status"],
        cause=filters["cause"],
        text=filters["q"],
        since=moments["since"],
        until=moments["until"],
    )
    return query, problems


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Return the runs that match the query string as CSV."""
    page = page_of(request)
    query, problems = query_of(page, filters_of(request))
    if problems:
        text = "\n".join(f"{name}: {problem}" for name, problem in problems.items())
        return HttpResponseBadRequest(f"{text}\n", content_type="text/plain; charset=utf-8")
    chunks = csv_chunks(query.matching(page.actor)[0])
    # Django collects a synchronous iterator in memory under ASGI, and an asynchronous one under WSGI.
    content = in_threads(chunks) if isinstance(request, ASGIRequest) else chunks
    response = StreamingHttpResponse(content, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="runs.csv"'
    return response


async def in_threads(chunks: Iterator[str]) -> AsyncIterator[str]:
    """Yield the chunks of a synchronous iterator without blocking the event loop."""
    read_next = sync_to_async(lambda: next(chunks, None))
    while (chunk := await read_next()) is not None:
        yield chunk


def csv_chunks(runs: ExecutionQuerySet) -> Iterator[str]:
    yield _csv_text([COLUMNS])
    for rows in _read(runs):
        yield _csv_text(_without_formulas(row) for row in rows)


def _read(runs: ExecutionQuerySet) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the newest runs in chunks of export rows."""
    columns = (
        "job__public_id",
        "job_name",
        "task",
        "cause",
        "status",
        "reason",
        "attempt",
        "started_at",
        "finished_at",
        "lateness",
        Left("error", ERROR_LENGTH + 1),
    )
    for rows in read_chunks(runs, columns, CHUNK_ROWS, MAX_ROWS):
        yield [_export_row(row) for row in rows]


def _export_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    pk, at, public_id, name, task, cause, status, reason, attempt, started, finished, lateness, error = row
    return (
        pk,
        public_id or "",
        name,
        task,
        _iso(at),
        cause,
        status,
        reason,
        attempt,
        _iso(started),
        _iso(finished),
        (finished - started).total_seconds() if started and finished else None,
        lateness.total_seconds() if lateness else None,
        error if len(error) <= ERROR_LENGTH else error[:ERROR_LENGTH] + SHORTENED,
    )


def _iso(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None


def _csv_text(rows: Iterable[Iterable[Any]]) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _without_formulas(row: tuple[Any, ...]) -> list[Any]:
    """Escape the columns whose text users or remote servers control."""
    cells = list(row)
    for index in _FREE_TEXT_COLUMNS:
        cells[index] = _without_formula(cells[index])
    return cells


def _without_formula(value: str) -> str:
    """Prefix a text with an apostrophe if a spreadsheet would evaluate it."""
    if value[:1].isalnum():
        return value
    first_visible = next(filter(_is_visible, value), "")
    return f"'{value}" if first_visible in FORMULA_STARTS or value.startswith(_LEADING_BREAKS) else value


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace()
