"""Outcomes written in batches: one that cannot be written does not affect the others."""

import logging
from itertools import chain

from django.db import DatabaseError, Error, NotSupportedError, OperationalError, connections

from schedules import engine
from schedules.engine import Outcome
from schedules.models import Execution
from schedules.worker.database_errors import is_outage, reason_of

logger = logging.getLogger(__name__)


def write_outcomes(cluster_id: int, batch: list[Outcome]) -> list[list[Outcome]]:
    """Settle outcomes in one batch; an outcome that cannot be written does not affect the others.

    Return the outcomes to be tried again because a row or table is locked, in groups.
    """
    try:
        blocked = engine.settle_runs(cluster_id, batch).blocked
    except (OperationalError, NotSupportedError) as error:
        if not engine.is_lock_timeout(error):
            # The database is locked, away or migrated, and the outcomes are fine: let the caller reconnect and try again.
            raise
        logger.warning("Outcomes wait for a row or table that is locked: %s", error)
        # One of them waited for a row other than its run and its job: let the other half go ahead the next time.
        middle = len(batch) // 2
        return [half for half in (batch[:middle], batch[middle:]) if half]
    except (ValueError, TypeError, DatabaseError) as error:
        if is_outage(error):
            raise
        if len(batch) == 1 and connections["default"].is_usable():
            execution_id = batch[0].execution_id
            logger.exception(
                "The outcome of execution %s cannot be written",
                execution_id,
                extra={"execution": execution_id},
            )
            blocked = engine.settle_runs(cluster_id, [_unwritable(batch[0])]).blocked
        elif connections["default"].is_usable():
            return list(chain.from_iterable(write_outcomes(cluster_id, [outcome]) for outcome in batch))
        else:
            raise
    return [blocked] if blocked else []


def log_failure(error: Exception) -> None:
    """Log that something could not be written; an outage without a traceback."""
    if isinstance(error, Error) and is_outage(error):
        logger.warning("Could not write to the database (%s); trying again", reason_of(error))
    else:
        logger.exception("Could not write to the database; trying again")


def _unwritable(outcome: Outcome) -> Outcome:
    message = "The outcome of this run could not be stored."
    return Outcome(
        outcome.execution_id,
        outcome.attempt,
        outcome.job_id,
        Execution.Status.FAILED,
        outcome.finished_at,
        error=message,
    )
