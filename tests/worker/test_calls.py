"""Task calls: every result and every error becomes an outcome."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django_q.exceptions import TimeoutException

from cronty_site.logs import JsonFormatter
from schedules import clock, engine
from schedules.engine import Started
from schedules.tasks import registry
from schedules.tasks.interface import WAITING, Final, RetryLater, Run
from schedules.tasks.outbound.signing import job_key
from schedules.tasks.registry import task
from schedules.worker import calls
from schedules.worker.calls import KEPT_BYTES
from tests.waiting import PATIENCE

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class CustomBaseError(BaseException):
    """Derives from BaseException only."""


class CarelessRetryLater(RetryLater):
    """Does not call the constructor of its base class."""

    def __init__(self, code: int) -> None:
        self.code = code


class MistypedRetryLater(RetryLater):
    after = "2"  # type: ignore[assignment]


class Unrepresentable:
    def __repr__(self) -> str:
        raise RuntimeError("no representation")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

RESULTS: dict[str, Any] = {
    "text": "fine",
    "number": 1.5,
    "nothing": None,
    "tree": {"a": [1, {"b": None}]},
    "waiting": WAITING,
    "set": {1},
    "object": object(),
    "odd keys": {(1, 2): 3},
    "unrepresentable": Unrepresentable(),
    "unrepresentable in a list": [Unrepresentable()],
    "cycle": CYCLE,
    "nul": "a\x00b",
    "lone surrogate": "\ud800",
    "nan": float("nan"),
    "huge number": 10**30,
    "huge": "ü" * 100_000,
    "deep": [[[[[[[[[[[[1]]]]]]]]]]]],
    "bytes": b"\xff",
}
ODD_RESULT = RetryLater("busy")
ODD_RESULT.result = {"took": timedelta(days=1)}
ERRORS: dict[str, BaseException] = {
    "odd result": ODD_RESULT,
    "runtime": RuntimeError("broken"),
    "no message": ValueError(),
    "final": Final("never again"),
    "later": RetryLater("later", timedelta(hours=3)),
    "much later": RetryLater("later", timedelta.max),
    "later, no delay given": RetryLater("later"),
    "later, by a subclass": CarelessRetryLater(7),
    "later, mistyped": MistypedRetryLater("later"),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "base exception": CustomBaseError("custom"),
    "cancelled": asyncio.CancelledError(),
    "timeout": TimeoutError("the server was slow"),
    "unprintable": UnprintableError(),
    "nul": RuntimeError("a\x00b"),
    "huge": RuntimeError("x" * 100_000),
}


@task("tests.calls.give")
def give(name: str) -> Any:
    return RESULTS[name]


@task("tests.calls.agive")
async def agive(name: str) -> Any:
    return RESULTS[name]


@task("tests.calls.fail")
def fail(name: str) -> None:
    raise ERRORS[name]


@task("tests.calls.afail")
async def afail(name: str) -> None:
    await asyncio.sleep(0)
    raise ERRORS[name]


@task("tests.calls.group")
async def group(*names: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(afail(name))


@task("tests.calls.context")
def context(*, run: Run) -> dict[str, Any]:
    return {"key": run.key, "attempt": run.attempt, "job": run.job_id, "timeout": run.timeout}


@task("tests.calls.awaitable")
def awaitable() -> Any:
    """A plain function that returns an awaitable."""
    return agive("text")


@task("tests.calls.inner_timeout")
async def inner_timeout() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(60)


@task("tests.calls.slow")
async def slow() -> None:
    await asyncio.sleep(60)


@task("tests.calls.log")
def log() -> None:
    logging.getLogger("tests.calls").warning("at work")


@task("tests.calls.alog")
async def alog() -> None:
    await asyncio.sleep(0)
    log()


def started(name: str = "tests.calls.give", *, attempt: int = 1, **fields: Any) -> Started:
    values: dict[str, Any] = {
        "execution_id": 1,
        "attempt": attempt,
        "cause": "schedule",
        "scheduled_for": NOW,
        "owner_id": 1,
        "job_id": 1,
        "task": name,
        "job_public_id": "job_1_1",
        "job_name": "Job",
        "args": [],
        "kwargs": {},
        "given": None,
        "timeout": timedelta(seconds=60),
        "attempts": 3,
        "backoff": timedelta(seconds=10),
        "fixed_backoff": False,
        "owner_key": None,
        "signing_version": 1,
        "signing_changed_at": None,
        "trigger_type": "cron",
        "timezone": "UTC",
    }
    return Started(**values | fields)


def by_turns(kinds: list[Any]) -> list[Any]:
    """Give half of the kinds to a plain function, and the others to a coroutine."""
    return [(place % 2 == 1, kind) for place, kind in enumerate(kinds)]


def run_once(name: str, **fields: Any) -> engine.Outcome:
    """Run a task by its kind: as a coroutine or as a plain function."""
    run, found = started(name, **fields), registry.get(name)
    if found and found.is_coroutine:
        return asyncio.run(calls.run_coroutine(run, found))
    return calls.run_plain(run, found)


STORABLE = ["text", "number", "nothing", "tree"]


@pytest.mark.parametrize(("is_coroutine", "kind"), by_turns(STORABLE))
def test_json_result_is_stored_unchanged(is_coroutine, kind):
    outcome = run_once(f"tests.calls.{'agive' if is_coroutine else 'give'}", args=[kind])

    assert (outcome.status, outcome.result, outcome.error) == ("succeeded", RESULTS[kind], "")
    assert outcome.retry_at is None


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.agive"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_outcome_says_when_the_task_was_called(name, attempt):
    before = clock.now()
    outcome = run_once(name, args=["text"], attempt=attempt, scheduled_for=before)

    assert before <= outcome.started_at <= outcome.finished_at
    assert outcome.lateness == (outcome.started_at - before if attempt == 1 else None)


@pytest.mark.parametrize(
    ("is_coroutine", "kind"), by_turns([kind for kind in RESULTS if kind not in (*STORABLE, "waiting")])
)
def test_result_that_cannot_be_stored_is_replaced_and_the_run_succeeds(is_coroutine, kind):
    outcome = run_once(f"tests.calls.{'agive' if is_coroutine else 'give'}", args=[kind])

    assert outcome.status == "succeeded"
    assert set(outcome.result) == {"kept", "note"}
    assert len(outcome.result["kept"].encode()) <= KEPT_BYTES
    assert "\x00" not in outcome.result["kept"]


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.agive"])
def test_task_that_returns_waiting_leaves_the_run_waiting(name):
    assert run_once(name, args=["waiting"]).status == "waiting"


@pytest.mark.parametrize("name", ["tests.calls.fail", "tests.calls.afail"])
@pytest.mark.parametrize(
    ("kind", "error", "is_retried", "has_trace"),
    [
        ("runtime", "RuntimeError: broken", True, True),
        ("no message", "ValueError: ValueError", True, True),
        ("final", "never again", False, False),
        ("later", "later", True, False),
        ("much later", "later", True, False),
        ("later, no delay given", "later", True, False),
        ("later, by a subclass", "7", True, False),
        ("exit", "SystemExit: 3", True, True),
        ("interrupt", "KeyboardInterrupt: KeyboardInterrupt", True, True),
        ("base exception", "CustomBaseError: custom", True, True),
        ("cancelled", "CancelledError: CancelledError", True, True),
        ("timeout", "the server was slow", True, True),
        ("unprintable", "UnprintableError: UnprintableError", True, True),
        ("nul", "RuntimeError: ab", True, True),
    ],
)
def test_every_exception_becomes_a_failed_outcome(name, kind, error, is_retried, has_trace):
    outcome = run_once(name, args=[kind])

    assert (outcome.status, outcome.error) == ("failed", error)
    assert bool(outcome.retry_at) is is_retried
    assert bool(outcome.traceback) is has_trace


@pytest.mark.parametrize("name", ["tests.calls.fail", "tests.calls.afail"])
def test_faulty_exception_becomes_a_failed_outcome_that_shows_the_fault(name):
    outcome = run_once(name, args=["later, mistyped"])

    assert outcome.status == "failed"
    assert outcome.error.startswith("TypeError: ")
    assert "MistypedRetryLater: later" in outcome.traceback
    assert outcome.retry_at


@pytest.mark.parametrize(
    ("kind", "error", "is_retried", "has_trace"),
    [
        ("final", "never again", False, False),
        ("later", "later", True, False),
        ("runtime", "RuntimeError: broken", True, True),
    ],
)
def test_single_exception_of_a_task_group_counts_like_one_that_the_task_raised(
    kind, error, is_retried, has_trace
):
    outcome = run_once("tests.calls.group", args=[kind])

    assert (outcome.status, outcome.error) == ("failed", error)
    assert bool(outcome.retry_at) is is_retried
    assert ("in group" in outcome.traceback) is has_trace


def test_several_exceptions_of_a_task_group_stay_together():
    outcome = run_once("tests.calls.group", args=["final", "runtime"])

    assert outcome.error == "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)"
    assert "never again" in outcome.traceback
    assert outcome.retry_at


@pytest.mark.parametrize("name", ["tests.calls.fail", "tests.calls.group"])
def test_task_chooses_its_own_retry_delay(name):
    outcome = run_once(name, args=["later"])

    assert outcome.retry_at is not None
    assert outcome.retry_at - outcome.finished_at > timedelta(hours=2, minutes=59)


def test_long_error_is_shortened():
    outcome = run_once("tests.calls.fail", args=["huge"])

    assert len(outcome.error) == KEPT_BYTES
    assert len(outcome.traceback) == KEPT_BYTES


def test_last_attempt_is_not_retried():
    assert run_once("tests.calls.fail", args=["runtime"], attempt=3).retry_at is None


def test_timeout_of_a_plain_function_gets_our_own_error_message():
    def late() -> None:
        raise TimeoutException("django-q2's own message")

    found = registry.get("tests.calls.give")
    assert found is not None
    outcome = calls.run_plain(
        started(timeout=timedelta(seconds=2.5)), _with_function(found, lambda name="": late())
    )

    assert (outcome.status, outcome.error) == ("failed", "Timed out after 2.5 seconds.")
    assert outcome.retry_at


def _with_function(found: registry.Task, function: Callable[..., Any]) -> registry.Task:
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    fields["signature"] = fields["signature"].replace(parameters=[])
    return registry.Task(
        **fields | {"function": function, "adapter": registry.get("tests.calls.context").adapter}
    )  # type: ignore[union-attr]


def test_coroutine_is_stopped_at_its_timeout():
    outcome = run_once("tests.calls.slow", timeout=timedelta(seconds=0.01))

    assert (outcome.status, outcome.error) == ("failed", "Timed out after 0.01 seconds.")


@pytest.mark.parametrize("run_it", [calls.run_plain, lambda *args: asyncio.run(calls.run_coroutine(*args))])
def test_unknown_task_fails_without_retry(run_it):
    outcome = run_it(started("tests.gone"), None)

    assert (outcome.status, outcome.error) == ("failed", "Unknown task: tests.gone")
    assert outcome.retry_at is None


def test_command_of_a_broken_file_fails_with_the_file_and_the_line(commands_file):
    commands_file.write_text("\n\n[half")

    outcome = asyncio.run(calls.run_coroutine(started("backup"), registry.get("backup")))

    assert outcome.error == (
        "Unknown task: backup. The file commands.toml, line 3, cannot be used, so no command can run."
    )


def test_invalid_arguments_fail_without_retry():
    outcome = run_once("tests.calls.give", kwargs={"nam": 1})

    assert outcome.error.startswith("Invalid arguments: nam: unknown argument")
    assert outcome.retry_at is None


def test_awaitable_returned_by_a_plain_function_is_awaited():
    found = registry.get("tests.calls.awaitable")

    assert run_once("tests.calls.awaitable").result == "fine"
    assert asyncio.run(calls.run_coroutine(started(), found)).result == "fine"


def test_session_that_breaks_while_another_run_looks_for_broken_ones_is_found_too(monkeypatch):
    looks, has_begun, may_end = [], threading.Event(), threading.Event()

    def look(**options: Any) -> list[Any]:
        looks.append(options)
        has_begun.set()
        assert may_end.wait(PATIENCE)
        return []

    async def end_one_after_the_other() -> None:
        found = registry.get("tests.calls.agive")
        await calls.run_coroutine(started(args=["text"]), found)
        await asyncio.to_thread(has_begun.wait, PATIENCE)
        await calls.run_coroutine(started(args=["text"]), found)
        may_end.set()
        await asyncio.gather(*calls._checks)

    monkeypatch.setattr(calls, "connections", SimpleNamespace(all=look))
    asyncio.run(end_one_after_the_other())

    assert len(looks) == 2


def test_runs_that_end_together_share_the_look_for_broken_sessions(monkeypatch):
    looks, may_begin = [], threading.Event()

    async def end_together() -> None:
        # The thread of the ORM is busy.
        busy = asyncio.ensure_future(sync_to_async(may_begin.wait)(PATIENCE))
        found = registry.get("tests.calls.agive")
        await asyncio.gather(*(calls.run_coroutine(started(args=["text"]), found) for _ in range(3)))
        may_begin.set()
        await asyncio.gather(busy, *calls._checks)

    monkeypatch.setattr(
        calls, "connections", SimpleNamespace(all=lambda **options: looks.append(options) or [])
    )
    asyncio.run(end_together())

    assert len(looks) == 1


def test_own_time_limit_of_a_coroutine_is_not_that_of_its_job():
    outcome = run_once("tests.calls.inner_timeout")

    assert outcome.error == "TimeoutError"
    assert "in inner_timeout" in outcome.traceback


@pytest.mark.parametrize(("seconds", "after"), [(90, timedelta(seconds=90)), (0.5, timedelta(seconds=0.5))])
def test_delay_of_a_retry_may_be_given_in_seconds(seconds, after):
    assert RetryLater("busy", seconds).after == after


def test_result_of_a_failure_that_is_not_json_is_replaced():
    outcome = run_once("tests.calls.afail", args=["odd result"])

    assert (outcome.status, outcome.error) == ("failed", "busy")
    assert outcome.result == {
        "kept": '{"took": "datetime.timedelta(days=1)"}',
        "note": "timedelta is not a JSON value.",
    }
    assert outcome.retry_at is not None


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.fail"])
def test_only_what_is_kept_of_a_long_text_is_cleaned(name, monkeypatch):
    cleaned = []
    monkeypatch.setattr("schedules.limits.strip_unprintable", lambda text: cleaned.append(len(text)) or text)

    run_once(name, args=["huge"])

    assert cleaned
    assert max(cleaned) <= KEPT_BYTES


def test_task_receives_its_run():
    outcome = run_once("tests.calls.context", attempt=2)

    assert outcome.result == {
        "key": "job_1_1@20260204T090000.000000Z",
        "attempt": 2,
        "job": "job_1_1",
        "timeout": 60,
    }


def test_run_of_a_webhook_is_given_the_keys_of_its_job():
    rotated = started(owner_key="k", job_public_id="job_1", signing_version=2, signing_changed_at=clock.now())

    assert calls._context(rotated).signing_keys() == (job_key("k", "job_1", 2), job_key("k", "job_1", 1))
    assert calls._context(started()).signing_keys() == ()


@pytest.mark.parametrize("name", ["tests.calls.log", "tests.calls.alog"])
def test_line_that_a_task_logs_names_its_run(name, caplog):
    caplog.handler.setFormatter(JsonFormatter())

    run_once(name, execution_id=41, attempt=2)
    logging.getLogger("tests.calls").warning("afterwards")

    inside, outside = map(json.loads, caplog.text.splitlines())
    assert {key: inside[key] for key in ("execution", "job", "task", "attempt")} == {
        "execution": 41,
        "job": "job_1_1",
        "task": name,
        "attempt": 2,
    }
    assert "execution" not in outside
