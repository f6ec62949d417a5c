"""Exports of runs as CSV, in chunks that keep memory use and transactions small."""

import csv
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models.functions import Left

from schedules.limits import SHORTENED
from schedules.models.executions import ExecutionQuerySet
from schedules.services.run_list import read_chunks

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
