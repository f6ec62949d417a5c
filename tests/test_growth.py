"""Growth: what every page, admin list and tool reads stays the same while jobs, runs and events become many."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from schedules import clock, engine
from schedules.mcp.auth import set_local_caller
from schedules.mcp.tools import prompts
from schedules.models import counting
from schedules.services import job_list, job_overview, paging, run_list
from schedules.services.jobs import agenda, outlook
from schedules.services.runs import outcomes
from schedules.services.runs import prompts as runs_of_prompts
from schedules.services.runs.counters import RunCounters
from schedules.web import metrics
from schedules.web.views import forecast, system
from tests.sizes import sizes
from verification.bench.growth_questions import Question, questions
from verification.bench.growth_rows import Filling

FEW, MANY = 1_500, 9_000
# PostgreSQL rather reads a few thousand rows than a small table's index; a whole table is more.
SLACK = 500 if connection.vendor == "sqlite" else 4_000
# Reads that depend on the number of jobs on purpose; each has its reason.
GROWING = {
    # The first time, the history of every job and owner is compared with its limit.
    "prune_history",
    # The quota counts the owner's active jobs, of which there are at most 1,000 unless the operator allows more.
    "schedule_job",
    "schedule",
}
# Steps of SQLite between two calls of what counts them, which takes longer than they do.
COUNTED_AT_ONCE = 100
TABLES = ("schedules_job", "schedules_execution", "schedules_event")


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Lower every limit, so that a few thousand rows are many."""
    for module in (paging, job_list, job_overview, run_list, runs_of_prompts):
        monkeypatch.setattr(module, "SCANNED", 100)
    for module in (counting, job_list):
        monkeypatch.setattr(module, "COUNTED", 300)
    monkeypatch.setattr(job_overview, "LARGE", 200)
    monkeypatch.setattr(job_overview, "FIRST", 100)
    monkeypatch.setattr(job_overview, "MAX_NAMED", 50)
    monkeypatch.setattr(prompts, "MAX_COUNTED", 50)
    # Fewer than the runs of a day, because on a Monday a week has no other day yet.
    monkeypatch.setattr(outcomes, "COUNTED_RUNS", 50)
    monkeypatch.setattr(outcomes, "READ_FAILURES", 50)
    # Fewer than the jobs that fire in a day: what is left of a week has no more towards its end.
    monkeypatch.setattr(forecast, "MAX_JOBS", 30)
    monkeypatch.setattr(outlook, "MAX_JOBS", 30)
    monkeypatch.setattr(agenda, "MAX_JOBS", 30)
    monkeypatch.setattr(system, "MEASURED_RUNS", 100)
    monkeypatch.setattr(system, "COUNTED", 100)
    settings.CRONTY_MAX_ACTIVE_JOBS = 10**7
    settings.CRONTY_MAX_RUNS_PER_MINUTE = 0
    settings.CRONTY_MCP_CALLS_PER_MINUTE = 10**6


@pytest.fixture
def filling(db: None, small_limits: None) -> Iterator[Filling]:
    yield Filling(clock.now())
    # The questions to tools are asked as local callers, one after the other.
    set_local_caller(None)


@pytest.mark.on_postgresql
# In `make test` every eighth question; asking all of them takes a minute.
@pytest.mark.parametrize("step", sizes(8, 1))
def test_nothing_reads_more_of_a_long_history_than_of_a_short_one(
    filling: Filling, monkeypatch: pytest.MonkeyPatch, step: int
):
    filling.grow_to(FEW)
    _assert_nothing_grows(filling, monkeypatch, _asked(filling)[::step])


@pytest.mark.verify
def test_week_of_the_calendar_reads_the_same_at_its_end(
    small_limits: None, db: None, monkeypatch: pytest.MonkeyPatch
):
    moment = datetime(2026, 11, 20, 1, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: moment)
    filling = Filling(moment)
    filling.grow_to(FEW)

    asked = [question for question in questions(filling) if question.name == "/calendar/?view=week"]
    _assert_nothing_grows(filling, monkeypatch, asked)


def _assert_nothing_grows(filling: Filling, monkeypatch: pytest.MonkeyPatch, asked: list[Question]) -> None:
    with transaction.atomic():
        filling.grow_to(MANY)
        _count_from_here(monkeypatch)
        many = {_key(question): measured(question) for question in asked}
        transaction.set_rollback(True)

    # The others read so little that they cannot have grown.
    large = {key: found.rows for key, found in many.items() if found.rows > SLACK}
    filling.analyze()
    _count_from_here(monkeypatch)
    few = {key: measured(question).rows for question in asked if (key := _key(question)) in large}
    grown = {key: (few[key], rows) for key, rows in large.items() if rows > 1.5 * few[key] + SLACK}
    assert grown == {}
    if connection.vendor == "sqlite":
        # The lists of staff begin at the end of a table, which is a scan with a limit.
        mine = {key: found for key, found in many.items() if key[0] != "staff"}
        assert {key: scans for key, found in mine.items() if (scans := scans_of(found.statements))} == {}


def test_pruning_with_nothing_to_do_reads_no_more_of_a_long_history(filling: Filling, settings: Any):
    settings.CRONTY_HISTORY_PER_PERSON = settings.CRONTY_EVENTS_PER_PERSON = 10**7
    prune = Question("prune_history", "staff", engine.prune_history)
    read = []
    for size in (FEW, MANY):
        filling.grow_to(size)
        engine.prune_history()
        read.append(measured(prune).rows)

    assert read[1] <= read[0] + SLACK


def _count_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the counters of runs: those of before would read every row that has come since."""
    counters = RunCounters()
    counters.update()
    monkeypatch.setattr(metrics, "counters", counters)


def _asked(filling: Filling) -> list[Question]:
    """Return what must not grow; of the owner of few jobs, without the filters, which are the same for all."""
    return [
        question
        for question in questions(filling)
        if question.name not in GROWING and (question.who != "few" or "?" not in question.name)
    ]


def _key(question: Question) -> tuple[str, str]:
    return question.who, question.name


class Measured(NamedTuple):
    """What an answer cost: rows read, or on SQLite steps over ten; and its statements."""

    rows: int
    statements: list[str]


def measured(question: Question) -> Measured:
    with CaptureQueriesContext(connection) as queries:
        steps = _steps(question.ask)
    statements = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    if connection.vendor == "sqlite":
        return Measured(steps // 10, statements)
    return Measured(sum(sum(_scanned(_executed(statement))) for statement in statements), statements)


def scans_of(statements: list[str]) -> list[str]:
    """Return the statements that scan a table in no order; in the order of an index, a limit ends the scan."""
    return [
        statement
        for statement in statements
        for line in _plan_of(statement)
        if line.startswith(tuple(f"SCAN {table}" for table in TABLES)) and "USING" not in line
    ]


def _plan_of(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return [str(row[-1]) for row in cursor.fetchall()]


def _steps(call: Callable[[], Any]) -> int:
    """Call a function, and return how many steps SQLite has taken for it."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += COUNTED_AT_ONCE
        return 0

    if connection.vendor != "sqlite":
        call()
        return 0
    connection.ensure_connection()
    connection.connection.set_progress_handler(count, COUNTED_AT_ONCE)
    try:
        call()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps


def _executed(statement: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        [answer] = cursor.fetchone()
    plan: dict[str, Any] = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return plan


def _scanned(plan: dict[str, Any]) -> Iterator[int]:
    if "Scan" in plan["Node Type"] and "Plans" not in plan:
        seen = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield int(seen * plan["Actual Loops"])
    for part in plan.get("Plans", []):
        yield from _scanned(part)
