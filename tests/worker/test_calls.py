"""Calls of tasks: every result and every error becomes an outcome."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django_q.exceptions import TimeoutException

from schedules import engine
from schedules.engine import Started
from schedules.tasks import registry
from schedules.tasks.registry import WAITING, Final, RetryLater, Run, task
from schedules.worker import calls
from schedules.worker.calls import KEPT_BYTES

NOW = datetime(2026, 2, 4, 9, 0, tzinfo=UTC)


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Rude(BaseException):
    """Neither an Exception nor anything anybody knows."""


class Shy:
    def __repr__(self) -> str:
        raise RuntimeError("do not look at me")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

RESULTS: dict[str, Any] = {
    "text": "fine",
    "number": 1.5,
    "nothing": None,
    "tree": {"a": [1, {"b": None}]},
    "waiting": WAITING,
    "set": {1},
    "object": object(),
    "odd keys": {(1, 2): 3},
    "shy": Shy(),
    "shy in a list": [Shy()],
    "circle": CIRCLE,
    "nul": "a\x00b",
    "half a pair": "\ud800",
    "nan": float("nan"),
    "huge number": 10**30,
    "huge": "ü" * 100_000,
    "deep": [[[[[[[[[[[[1]]]]]]]]]]]],
    "bytes": b"\xff",
}
ERRORS: dict[str, BaseException] = {
    "runtime": RuntimeError("broken"),
    "wordless": ValueError(),
    "final": Final("never again"),
    "later": RetryLater("later", timedelta(hours=3)),
    "much later": RetryLater("later", timedelta.max),
    "later, some time": RetryLater("later"),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "rude": Rude("out of my way"),
    "cancelled": asyncio.CancelledError(),
    "timeout": TimeoutError("the server was slow"),
    "unspeakable": Unspeakable(),
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


@task("tests.calls.context")
def context(*, run: Run) -> dict[str, Any]:
    return {"key": run.key, "attempt": run.attempt, "job": run.job_id, "timeout": run.timeout}


@task("tests.calls.awaitable")
def awaitable() -> Any:
    """A plain function by its looks, but what it gives is to be awaited."""
    return agive("text")


@task("tests.calls.slow")
async def slow() -> None:
    await asyncio.sleep(60)


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
        "timeout": timedelta(seconds=60),
        "attempts": 3,
        "backoff": timedelta(seconds=10),
        "signing_key": None,
    }
    return Started(**values | fields)


def run_once(name: str, **fields: Any) -> engine.Outcome:
    """Run a task as its kind is run."""
    run, found = started(name, **fields), registry.get(name)
    if found and found.is_coroutine:
        return asyncio.run(calls.run_coroutine(run, found))
    return calls.run_plain(run, found)


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.agive"])
@pytest.mark.parametrize("kind", ["text", "number", "nothing", "tree"])
def test_result_is_kept_as_it_is(name, kind):
    outcome = run_once(name, args=[kind])

    assert (outcome.status, outcome.result, outcome.error) == ("succeeded", RESULTS[kind], "")
    assert outcome.retry_at is None


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.agive"])
@pytest.mark.parametrize(
    "kind",
    [kind for kind in RESULTS if kind not in ("text", "number", "nothing", "tree", "waiting")],
)
def test_result_that_cannot_be_kept_is_still_a_success(name, kind):
    outcome = run_once(name, args=[kind])

    assert outcome.status == "succeeded"
    assert set(outcome.result) == {"kept", "note"}
    assert len(outcome.result["kept"].encode()) <= KEPT_BYTES
    assert "\x00" not in outcome.result["kept"]


@pytest.mark.parametrize("name", ["tests.calls.give", "tests.calls.agive"])
def test_prompt_may_wait(name):
    assert run_once(name, args=["waiting"]).status == "waiting"


@pytest.mark.parametrize("name", ["tests.calls.fail", "tests.calls.afail"])
@pytest.mark.parametrize(
    ("kind", "words", "is_retried", "has_trace"),
    [
        ("runtime", "RuntimeError: broken", True, True),
        ("wordless", "ValueError: ValueError", True, True),
        ("final", "never again", False, False),
        ("later", "later", True, False),
        ("much later", "later", True, False),
        ("later, some time", "later", True, False),
        ("exit", "SystemExit: 3", True, True),
        ("interrupt", "KeyboardInterrupt: KeyboardInterrupt", True, True),
        ("rude", "Rude: out of my way", True, True),
        ("cancelled", "CancelledError: CancelledError", True, True),
        ("timeout", "the server was slow", True, True),
        ("unspeakable", "Unspeakable: Unspeakable", True, True),
        ("nul", "RuntimeError: ab", True, True),
    ],
)
def test_whatever_is_raised_becomes_the_outcome(name, kind, words, is_retried, has_trace):
    outcome = run_once(name, args=[kind])

    assert (outcome.status, outcome.error) == ("failed", words)
    assert bool(outcome.retry_at) is is_retried
    assert bool(outcome.traceback) is has_trace


def test_task_that_asks_for_time_gets_it():
    outcome = run_once("tests.calls.fail", args=["later"])

    assert outcome.retry_at is not None
    assert outcome.retry_at - outcome.finished_at > timedelta(hours=2, minutes=59)


def test_long_error_is_shortened():
    outcome = run_once("tests.calls.fail", args=["huge"])

    assert len(outcome.error) == KEPT_BYTES
    assert len(outcome.traceback) == KEPT_BYTES


def test_last_attempt_is_not_repeated():
    assert run_once("tests.calls.fail", args=["runtime"], attempt=3).retry_at is None


def test_timeout_of_a_plain_function_is_reported_in_our_own_words():
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


def test_coroutine_that_takes_too_long_is_stopped():
    outcome = run_once("tests.calls.slow", timeout=timedelta(seconds=0.01))

    assert (outcome.status, outcome.error) == ("failed", "Timed out after 0.01 seconds.")


@pytest.mark.parametrize("run_it", [calls.run_plain, lambda *args: asyncio.run(calls.run_coroutine(*args))])
def test_unknown_task_fails_for_good(run_it):
    outcome = run_it(started("tests.gone"), None)

    assert (outcome.status, outcome.error) == ("failed", "Unknown task: tests.gone")
    assert outcome.retry_at is None


def test_wrong_arguments_fail_for_good():
    outcome = run_once("tests.calls.give", kwargs={"nam": 1})

    assert outcome.error.startswith("Invalid arguments: nam: unknown argument")
    assert outcome.retry_at is None


def test_awaitable_of_a_plain_function_is_awaited_among_coroutines():
    found = registry.get("tests.calls.awaitable")

    assert asyncio.run(calls.run_coroutine(started(), found)).result == "fine"


def test_task_may_ask_for_its_run():
    outcome = run_once("tests.calls.context", attempt=2)

    assert outcome.result == {
        "key": "job_1_1@20260204T090000.000000Z",
        "attempt": 2,
        "job": "job_1_1",
        "timeout": 60,
    }
