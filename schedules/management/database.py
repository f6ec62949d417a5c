"""Checks of the database for commands: it may be missing, without tables, or of another version."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import iter_modules

from django.core.management.base import CommandError
from django.db import Error, connection
from django.db.migrations.recorder import MigrationRecorder

from schedules import migrations
from schedules.services.installation.command_words import how_to_run
from schedules.worker.database_errors import reason_of


@contextmanager
def readable_database() -> Iterator[None]:
    """Turn database errors inside the block into a CommandError; refuse a missing file instead of creating it."""
    if problem := missing_database_problem():
        raise CommandError(problem)
    try:
        yield
    except Error as error:
        raise CommandError(
            f"The database cannot be read ({reason_of(error)}): run `{how_to_run('up')}` first."
        ) from error


def missing_database_problem() -> str:
    """Return the error for a missing SQLite file, which a connection would create, or an empty text."""
    file = Path(str(connection.settings_dict["NAME"]))
    if connection.vendor == "sqlite" and file.is_absolute() and not file.exists():
        return f"There is no database {file}: check CRONTY_DATA, or run `{how_to_run('up')}` first."
    return ""


def has_missing_migrations() -> bool:
    """Return whether the tables of this app are older than its code."""
    return bool(_migrations_of_code() - _applied_migrations())


def _migrations_of_code() -> set[str]:
    """Return the names of the migrations, without importing them into a long-running process."""
    return {module.name for module in iter_modules(migrations.__path__)}


def _applied_migrations() -> set[str]:
    # Of this app only: squashed migrations of others stay recorded under their old names.
    applied = MigrationRecorder(connection).applied_migrations()
    return {name for app, name in applied if app == "schedules"}
