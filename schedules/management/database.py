"""The database as a command finds it, which may be away or without tables."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import Error

from schedules.command_words import how_to_run
from schedules.database_errors import reason_of


@contextmanager
def readable_database() -> Iterator[None]:
    """Raise CommandError with one sentence if the database cannot be used inside the block."""
    try:
        yield
    except Error as error:
        raise CommandError(
            f"The database cannot be read ({reason_of(error)}): run `{how_to_run('up')}` first."
        ) from error
