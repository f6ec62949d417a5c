"""Task calls: run one execution within its time limit and describe its outcome."""

import asyncio
import inspect
import json
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from schedules import clock, engine, limits
from schedules.engine import Outcome, Started
from schedules.models import Execution
from schedules.models.approvals import MARGIN
from schedules.models.executions import ASKS
from schedules.models.triggers import TriggerType
from schedules.tasks import registry
from schedules.tasks.asking import ReminderStep
from schedules.tasks.interface import (
    WAITING,
    Answered,
    Asked,
    AskPerson,
    Final,
    OutputText,
    RetryLater,
    Run,
    Skip,
)
from schedules.tasks.outbound.signing import current_keys
from schedules.tasks.time_limit import PlainTimeLimit, TimeLimit
from schedules.worker import q2
from schedules.worker.log_context import current_run
from schedules.worker.secret_access import SecretAccess

SaveOutput = Callable[[OutputText], Awaitable[None]]
SaveAgentRun = Callable[[Mapping[str, Any]], Awaitable[None]]
Mask = Callable[[Any], Any]

Status = Execution.Status

# The limit for stored results and errors; longer ones are cut.
KEPT_BYTES = 16_384

# Checks for broken sessions in progress, because the event loop itself holds only weak references.
_checks: set[asyncio.Future[None]] = set()
# Whether a check is scheduled but has not begun. It serves all runs that have ended until then: in a burst, one check for
# each would take longer than the runs.
_is_check_waiting = threading.Event()


def run_plain(started: Started, task: registry.Task | None) -> Outcome:
    """Call a plain function within its time limit; any exception becomes a failed outcome."""
    called_at = clock.now()
    token = current_run.set(_log_fields(started))
    try:
        # Each execution has its own time limit; django-q2's is for the whole package.
        with PlainTimeLimit(started.timeout.total_seconds(), q2.TimedOut):
            value = _require(started, task).call(_context(started), started.args, started.kwargs)
            if inspect.isawaitable(value):
                # A plain wrapper around a coroutine function returns an awaitable.
                value = asyncio.run(_awaited(value))
            return _returned(started, called_at, value)
    except q2.TimedOut:
        return _failed(started, called_at, TimeoutError(_timeout_message(started)))
    except BaseException as error:
        return _failed(started, called_at, error)
    finally:
        current_run.reset(token)


async def run_coroutine(
    started: Started,
    task: registry.Task | None,
    save_output: SaveOutput | None = None,
    save_agent_run: SaveAgentRun | None = None,
) -> Outcome:
    """Await a coroutine task within its time limit; secrets that it used are masked in its outcome."""
    called_at = clock.now()
    # No reset is needed, because the asyncio task of each run has its own context.
    current_run.set(_log_fields(started))
    secrets = SecretAccess(started.owner_id)
    # Programs enforce their time limit themselves, and report how they ended.
    timer = TimeLimit(None if task and task.runs_program else started.timeout.total_seconds())
    try:
        async with timer:
            run = _context(
                started,
                secrets=secrets.find,
                mask_cut=secrets.mask_cut,
                **({"save_output": save_output} if save_output else {}),
                **({"save_agent_run": save_agent_run} if save_agent_run else {}),
                **({"find_reminder": partial(_find_reminder, started)} if started.is_reminder else {}),
            )
            value = _require(started, task).call(run, started.args, started.kwargs)
            value = await value if inspect.isawaitable(value) else value
            outcome = _returned(started, called_at, value, secrets.mask)
    except asyncio.CancelledError as error:
        # Either the task itself raised it, or the process is ending and will not write the outcome.
        return _failed(started, called_at, error, secrets.mask)
    except BaseException as error:
        if isinstance(error, TimeoutError) and timer.expired():
            error = TimeoutError(_timeout_message(started))
        outcome = _failed(started, called_at, error, secrets.mask)
    if task and not task.is_built_in and not _is_check_waiting.is_set():
        _close_broken_sessions()
    return outcome


async def _find_reminder(started: Started) -> ReminderStep | None:
    return await asyncio.to_thread(_read_reminder, started.execution_id)


def _read_reminder(execution_id: int) -> ReminderStep | None:
    try:
        return engine.read_reminder(execution_id)
    finally:
        # This thread may never be used again.
        connections.close_all()


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def _close_broken_sessions() -> None:
    """Close broken database sessions of the ORM, as Django does after a request, so that the next run can use them."""
    # Not awaited, because the thread of the ORM may be busy with another run.
    _is_check_waiting.set()
    check = asyncio.ensure_future(sync_to_async(_close_if_broken)())
    _checks.add(check)
    check.add_done_callback(_end_check)


def _end_check(check: asyncio.Future[None]) -> None:
    _checks.discard(check)
    # It may have been cancelled before it began.
    _is_check_waiting.clear()


def _close_if_broken() -> None:
    # Clear it first, because a session that breaks from now on needs another check.
    _is_check_waiting.clear()
    for session in connections.all(initialized_only=True):
        # Healthy sessions stay open, even old ones: another run may be using them.
        if session.errors_occurred:
            session.close_if_unusable_or_obsolete()


def _log_fields(started: Started) -> dict[str, Any]:
    return {
        "execution": started.execution_id,
        "job": started.job_public_id,
        "task": started.task,
        "attempt": started.attempt,
    }


def _require(started: Started, task: registry.Task | None) -> registry.Task:
    if task is None:
        raise Final(registry.unknown(started.task))
    return task


def _context(started: Started, **more: Any) -> Run:
    return Run(
        execution_id=started.execution_id,
        key=started.key,
        job_id=started.job_public_id,
        job_name=started.job_name,
        attempt=started.attempt,
        scheduled_for=started.scheduled_for,
        owner_id=started.owner_id,
        signing_keys=partial(_signing_keys, started),
        timeout=started.timeout.total_seconds(),
        repeats=started.trigger_type != TriggerType.ONCE,
        **more,
    )


def _signing_keys(started: Started) -> tuple[str, ...]:
    if not started.owner_key:
        return ()
    return current_keys(
        started.owner_key,
        started.job_public_id,
        started.signing_version,
        started.signing_changed_at,
        clock.now(),
    )


def _unmasked(value: Any) -> Any:
    return value


def _returned(started: Started, called_at: datetime, value: Any, mask: Mask = _unmasked) -> Outcome:
    if value is WAITING:
        return _outcome(started, called_at, Status.WAITING)
    if isinstance(value, Answered):
        outcome = _returned(started, called_at, value.result, mask)
        return outcome._replace(deliver_to=value.deliver_to, gate=mask(value.gate))
    if isinstance(value, Asked):
        result = _storable(value.result, mask)
        return _outcome(started, called_at, Status.SUCCEEDED, result=result, question=value.question)
    return _outcome(started, called_at, Status.SUCCEEDED, result=_storable(value, mask))


def _storable(result: Any, mask: Mask) -> Any:
    """Return the result to store: if it is too large or not JSON, only the beginning of its text."""
    result = mask(result)
    if result is not None and (problem := limits.json_problem(result, max_bytes=KEPT_BYTES)):
        return {"kept": _shortened(result, mask), "note": problem}
    return result


def _failed(started: Started, called_at: datetime, error: BaseException, mask: Mask = _unmasked) -> Outcome:
    """Describe a failure; if that fails, describe the new error, because every run needs an outcome."""
    try:
        return _failure(started, called_at, error, mask)
    except Exception as fault:
        return _failure(started, called_at, fault, mask)


def _failure(started: Started, called_at: datetime, error: BaseException, mask: Mask) -> Outcome:
    if isinstance(error, Skip):
        return _outcome(started, called_at, Status.SKIPPED, reason=_shortened(str(error), mask)[:300])
    if isinstance(error, AskPerson):
        return _outcome(
            started,
            called_at,
            Status.FAILED,
            error=_shortened(str(error), mask),
            reason=ASKS,
            request=error.request,
            retry_at=clock.now() + error.within + MARGIN,
        )
    raised = error
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        # asyncio.TaskGroup wraps even a single exception.
        error = error.exceptions[0]
    after = error.after if isinstance(error, RetryLater) else None
    message = _message_of(error) or type(error).__name__
    if not isinstance(error, Final | RetryLater | TimeoutError):
        message = f"{type(error).__name__}: {message}"
    is_final = isinstance(error, Final)
    trace = "" if isinstance(error, Final | RetryLater) else _trace(raised)
    return _outcome(
        started,
        called_at,
        Status.FAILED,
        error=_shortened(message, mask),
        traceback=_shortened(trace, mask),
        result=_storable(error.result, mask) if isinstance(error, Final | RetryLater) else None,
        retry_at=None if is_final else engine.retry_at(started, clock.now(), after),
    )


def _outcome(started: Started, called_at: datetime, status: Execution.Status, **values: Any) -> Outcome:
    return Outcome(
        started.execution_id,
        started.attempt,
        started.job_id,
        status,
        finished_at=clock.now(),
        started_at=called_at,
        lateness=called_at - started.scheduled_for if started.attempt == 1 else None,
        **values,
    )


def _timeout_message(started: Started) -> str:
    return f"Timed out after {started.timeout / timedelta(seconds=1):g} seconds."


def _message_of(error: BaseException) -> str:
    with suppress(Exception):
        return str(error)
    return ""


def _trace(error: BaseException) -> str:
    with suppress(Exception):
        return "".join(traceback.format_exception(error, limit=-20))
    return ""


def _shortened(value: Any, mask: Mask) -> str:
    text: str = mask(value if isinstance(value, str) else _as_text(value))
    # Cut first: removing characters from many megabytes would take longer than the run.
    clean = limits.strip_unprintable(text[:KEPT_BYTES]).encode("utf-8", "replace")
    return clean[:KEPT_BYTES].decode("utf-8", "ignore")


def _as_text(value: Any) -> str:
    """Describe a value that JSON cannot hold, without failing: the run succeeded, whatever it returned."""
    with suppress(Exception):
        return json.dumps(value, default=repr, ensure_ascii=False)
    with suppress(Exception):
        return repr(value)
    return f"A {type(value).__name__} that cannot be shown."
