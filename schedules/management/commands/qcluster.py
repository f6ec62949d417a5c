"""manage.py qcluster: run one cluster until a signal, and restart it if it fails."""

import logging
import signal
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import IntegrityError

from schedules import clock, engine
from schedules.engine import sqlite_file
from schedules.management.base_command import CrontyCommand
from schedules.management.database import has_missing_migrations
from schedules.services.installation.command_words import how_to_run
from schedules.services.installation.secret_key import ForeignSecretKeyError, require_secret_key
from schedules.services.installation.setup import ensure_system_job
from schedules.services.people.profiles import SYSTEM_USER
from schedules.worker import parent_death
from schedules.worker.leader import Leader, NotReadyError

logger = logging.getLogger(__name__)


class Command(CrontyCommand):
    help = "Run a cluster, which fires jobs; several may run, on one host or many."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--with-parent", type=int, metavar="PID", help="Stop when this parent process ends."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["with_parent"]:
            parent_death.end_with_parent(options["with_parent"], signal.SIGTERM)
        try:
            sqlite_file.refuse_replaced()
            sqlite_file.examine_replaced()
            Leader(on_start=_get_ready, meanwhile=_check_secret_key).lead()
        except (sqlite_file.ReplacedError, sqlite_file.DamagedError) as error:
            raise CommandError(str(error)) from error


def _get_ready() -> None:
    """Before a start, check database and key, update system job and zone data, and load what notices need."""
    if has_missing_migrations():
        raise NotReadyError(
            f"the database is not migrated: run `{how_to_run('up')}` or `{how_to_run('migrate')}`"
        )
    _check_secret_key()
    _ensure_system_job()
    engine.follow_zone_data(clock.now())
    engine.prepare_links()


def _check_secret_key() -> None:
    """Adopt a new secret key when every host has it; stop if this host lacks the installation's key."""
    try:
        require_secret_key()
    except ForeignSecretKeyError as error:
        raise CommandError(str(error)) from error


def _ensure_system_job() -> None:
    try:
        ensure_system_job()
    except IntegrityError:
        # The user model has required columns that only the project can fill in.
        logger.warning("The history is not pruned: create a user named %s.", SYSTEM_USER, exc_info=True)
