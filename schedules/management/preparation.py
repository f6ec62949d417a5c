"""Prepare an installation before a start: migrations, static files, and the rows that every start needs."""

import logging
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, Error, connections

from schedules import clock, engine
from schedules.checks import MOVE_TO_THIS_BUILD, foreign_schema_problem
from schedules.engine import sqlite_file
from schedules.management.preparation_lock import preparation_lock
from schedules.services.installation.secret_key import ForeignSecretKeyError, require_secret_key
from schedules.services.installation.setup import FirstUser, ensure_first_user, ensure_system_job
from schedules.worker import parent_death
from schedules.worker.database_errors import is_outage, reason_of
from schedules.worker.supervisor import growing_pauses

logger = logging.getLogger(__name__)

# A migration of a large table takes minutes.
MAX_WAIT = 900.0


class DatabaseAwayError(Exception):
    """The database is unavailable, locked or full; the text says why."""


def prepare(*, with_first_user: bool = True, max_wait: float = MAX_WAIT) -> FirstUser | None:
    """Prepare the installation, one process at a time; return the login of the first user if one was created."""
    with preparation_lock(max_wait):
        sqlite_file.examine_replaced()
        # `migrate` makes its own checks only when a person calls it.
        if problem := foreign_schema_problem():
            raise CommandError(f"{problem} {MOVE_TO_THIS_BUILD}")
        call_command("migrate", verbosity=0)
        require_secret_key()
        # Without STATIC_ROOT, the project serves its static files in another way.
        if getattr(settings, "STATIC_ROOT", None) and not _static_files_are_fresh():
            call_command("collectstatic", verbosity=0, interactive=False)
        ensure_system_job()
        engine.follow_zone_data(clock.now())
        return ensure_first_user() if with_first_user else None


def prepare_in_child_process(*, with_first_user: bool = True, max_wait: float = MAX_WAIT) -> FirstUser | None:
    """Prepare in a child process, so that its memory is freed; raise DatabaseAwayError in an outage."""
    connections.close_all()
    pool = ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("fork"),
        initializer=parent_death.end_with_parent,
        initargs=(os.getpid(),),
    )
    with pool:
        return pool.submit(_try_to_prepare, with_first_user, max_wait).result()


def prepare_when_possible() -> FirstUser | None:
    """Prepare as soon as the database can be used; log the reason for waiting whenever it changes."""
    reason = ""
    for pause in growing_pauses():
        try:
            return prepare_in_child_process()
        except DatabaseAwayError as away:
            if str(away) != reason:
                reason = str(away)
                logger.warning("The database cannot be used (%s); waiting for it", reason)
        time.sleep(pause)  # noqa: TID251  (waits for the database)
    raise AssertionError("the pauses never end")


def _try_to_prepare(with_first_user: bool, max_wait: float) -> FirstUser | None:
    try:
        return prepare(with_first_user=with_first_user, max_wait=max_wait)
    except (ForeignSecretKeyError, sqlite_file.DamagedError) as error:
        raise CommandError(str(error)) from None
    except Error as error:
        if is_outage(error):
            raise DatabaseAwayError(reason_of(error)) from None
        # A plain DatabaseError means a file that is not a database; subclasses are errors in a migration.
        if type(error) is not DatabaseError:
            logger.exception("The database could not be prepared")
        raise CommandError(f"DATABASE_URL: the database cannot be used ({reason_of(error)}).") from None
    finally:
        connections.close_all()


def _static_files_are_fresh() -> bool:
    """Return whether no static file was added or changed since they were last collected."""
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    if not manifest.exists():
        return False
    collected_at = manifest.stat().st_mtime
    sources = (Path(storage.path(name)) for finder in get_finders() for name, storage in finder.list([]))
    return all(source.stat().st_mtime < collected_at for source in sources)
